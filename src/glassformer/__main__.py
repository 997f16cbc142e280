"""`python -m glassformer` is `glassformer`."""

import sys

from glassformer.cli.main import main

sys.exit(main())
