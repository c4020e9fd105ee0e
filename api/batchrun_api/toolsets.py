"""Toolsets, their tools, and the distributions that they are drawn from (the reference's tables)."""

TOOLSETS: dict[str, tuple[str, ...]] = {
    "web": ("web_search", "web_extract"),
    "vision": ("vision_analyze",),
    "image_gen": ("image_generate",),
    "terminal": ("terminal", "process"),
    "file": ("read_file", "write_file", "patch", "search_files"),
    "moa": ("mixture_of_agents",),
    "browser": (
        "browser_navigate",
        "browser_snapshot",
        "browser_click",
        "browser_type",
        "browser_scroll",
        "browser_back",
        "browser_press",
        "browser_get_images",
        "browser_vision",
        "browser_console",
        "web_search",
    ),
}
"""Tools of each toolset. `web_search` belongs to two."""

ALL_TOOLS: tuple[str, ...] = tuple(dict.fromkeys(tool for tools in TOOLSETS.values() for tool in tools))
"""Every built-in tool once, in a fixed order: the keys of `tool_stats` in every row."""

Distribution = dict[str, int]
"""Probability in percent of each toolset, drawn independently."""

DISTRIBUTIONS: dict[str, Distribution] = {
    "default": dict.fromkeys(TOOLSETS, 100),
    "image_gen": {"web": 55, "vision": 90, "image_gen": 90, "terminal": 45, "moa": 10},
    "research": {"web": 90, "vision": 50, "terminal": 10, "moa": 40, "browser": 70},
    "science": {
        "web": 94,
        "vision": 65,
        "image_gen": 15,
        "terminal": 94,
        "file": 94,
        "moa": 10,
        "browser": 50,
    },
    "development": {"web": 30, "vision": 10, "terminal": 80, "file": 80, "moa": 60},
    "safe": {"web": 80, "vision": 60, "image_gen": 60, "moa": 50, "browser": 70},
    "balanced": dict.fromkeys(TOOLSETS, 50),
    "minimal": {"web": 100},
    "terminal_only": {"terminal": 100, "file": 100},
    "terminal_web": {"web": 100, "terminal": 100, "file": 100},
    "creative": {"web": 30, "vision": 90, "image_gen": 90},
    "reasoning": {"web": 30, "terminal": 20, "moa": 90},
    "browser_use": {"web": 80, "vision": 70, "browser": 100},
    "browser_only": {"browser": 100},
    "browser_tasks": {"vision": 12, "terminal": 15, "browser": 97},
    "terminal_tasks": {"web": 97, "vision": 50, "image_gen": 10, "terminal": 97, "file": 97, "browser": 75},
    "mixed_tasks": {"web": 35, "vision": 15, "image_gen": 15, "terminal": 92, "file": 92, "browser": 92},
}

MEANT_FOR: dict[str, str] = {
    "default": "everything, always",
    "image_gen": "making pictures",
    "research": "web research",
    "science": "scientific problems",
    "development": "coding",
    "safe": "no terminal",
    "balanced": "even odds",
    "minimal": "web only",
    "terminal_only": "code execution",
    "terminal_web": "code with documentation",
    "creative": "pictures",
    "reasoning": "mixture of agents",
    "browser_use": "web interaction",
    "browser_only": "browser alone",
    "browser_tasks": "browser tasks",
    "terminal_tasks": "terminal tasks",
    "mixed_tasks": "browser and terminal",
}
"""One line for each distribution, for people who choose."""

WORKING_TOOLSETS: tuple[str, ...] = ("web", "vision", "image_gen", "terminal", "file", "moa", "browser")
"""Toolsets that this version has; a test of the runner holds this to what is implemented."""

NEEDS: dict[str, tuple[str, ...]] = {
    "web": ("tools.web",),
    "vision": ("tools.vision",),
    "image_gen": ("tools.imageGen",),
    "moa": ("tools.mixtureOfAgents",),
    "browser": ("tools.browser", "tools.web", "tools.vision"),
}
"""Fields of the spec without which a toolset is unavailable."""
