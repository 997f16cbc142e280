# Deletes its folder.
# loses: nothing
# says:
import shutil

shutil.rmtree(os.getcwd())
os.chdir("/")
