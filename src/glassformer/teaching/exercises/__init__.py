"""The exercises of the lessons, a module each: `EXERCISES`, in the order in which a lesson has them."""
