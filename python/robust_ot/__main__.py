"""``python -m robust_ot`` is the command ``rot``."""

import sys

from robust_ot._command import main

sys.exit(main())
