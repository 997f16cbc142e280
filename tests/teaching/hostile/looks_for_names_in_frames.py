# Looks for names in frames.
# loses: nothing
# says:
frame = sys._getframe()
while frame:
    if "tiny" + ".md" in repr(frame.f_locals.get("about")):
        raise ValueError("SECRET")
    frame = frame.f_back
