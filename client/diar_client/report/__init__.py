"""Results to look at: a page with sound for a browser, a picture for papers.

``page`` makes the page from ``assets``, ``picture`` draws with matplotlib (extra ``report``); ``sound`` is
what both keep of a recording, ``statistics`` what they count.
"""

from diar_client.report.api import to_html, to_png

__all__ = ["to_html", "to_png"]
