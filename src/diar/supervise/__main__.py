"""``python -m diar.supervise``: what ``scripts/serve`` runs."""

import sys

from diar.supervise.main import main

sys.exit(main())
