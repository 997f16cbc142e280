# Has parentheses within parentheses.
# loses: largest
# says: SyntaxError|MemoryError|RecursionError|too many
x = @@3000*(@@1@@3000*)@@
