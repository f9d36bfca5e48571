"""Makes ``tensorboard --logdir igfs:///...`` work: TensorBoard imports its plugins before it looks at the folder.

The import alone does it, because importing this package registers ``igfs://`` with the TensorFlow that is loaded. The
plugin itself shows nothing.
"""

from __future__ import annotations

from typing import Any

from tensorboard.plugins import base_plugin

__all__ = ["IgfsPlugin"]


class IgfsPlugin(base_plugin.TBPlugin):  # type: ignore[misc]
    """A plugin without a page."""

    plugin_name = "igfs"

    def is_active(self) -> bool:
        """Never: there is nothing to show."""
        return False

    def get_plugin_apps(self) -> dict[str, Any]:
        """No pages."""
        return {}
