# Imports the lesson by its file.
# loses: nothing
# says: FileNotFoundError|PermissionError
import importlib.util
import glassformer

folder = os.path.join(os.path.dirname(glassformer.__file__), "teaching", "exercises")
raise ValueError("SECRET" + open(os.path.join(folder, "attention.py")).read())
