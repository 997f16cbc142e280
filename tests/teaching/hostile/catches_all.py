# Catches all.
# loses: nothing
# says: takes more than 3 s
while True:
    try:
        while True:
            pass
    except BaseException:
        pass
