"""Hooks of `mkdocs build`.

Two kinds of fenced blocks are replaced: `look` by the live panel that the command writes, `math` by a formula.
README.md is the front page. The reference is generated from the code.
"""

import contextlib
import hashlib
import html
import io
import os
import re
import shlex
from functools import cache
from pathlib import Path

import lessons
import reference
from latex2mathml.converter import convert
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from PIL import Image

from glassformer.cli.main import main
from glassformer.data.datasets.samples import digit_images

ROOT = Path(__file__).parents[2]
WORK = ROOT / "build" / "docs"
"""Where runs are trained and panels made; what is there is not made again, but for panels."""
RUNS = {
    "bag": "opinions --model bag",
    "lstm": "opinions --model lstm --epochs 2",
    "average": "opinions --model average --model.pool attention --epochs 2",
    "cnn": "opinions --model cnn --size nano --epochs 1",
    "dates": "dates --model lstm",
    "pronouns": "pronouns --model.layers 1 --keep-checkpoints",
    "writer": "docstrings --size nano --steps 600 --tokenizer.kind bpe --tokenizer.vocab_size 1000",
    "classic": "docstrings --size nano --style classic --steps 100 --tokenizer.kind bpe --tokenizer.vocab_size 1000",
    "patches": "digits --model transformer --model.patch 2 --epochs 10",
    "by-hand": "pronouns --size hand --steps 200",
}
"""The runs that the pages look into, and how each is trained."""
SHARE = float(os.environ.get("LESSON_SHARE", "1"))
"""Of the updates that the lessons' trainings make: a test has no time for all of them."""
SOURCES = {
    "src/glassformer/__init__.py": "reference/python.md",
    "src/glassformer/config/sections.py": "reference/command-line.md",
    "src/glassformer/teaching/lessons/": "lessons/",
}
"""Pages that exist only on the site, by the source file that the documents link to so that links work on GitHub too."""
PICTURE = r"!\[[^\]\n]*\]\([./]*images/panels/[\w-]+\.png\)"
"""The picture below a `look` block. GitHub shows it; the site shows the live panel instead."""
PLAIN_TEXT: dict[str, str] = {}
"""Markdown of each page, by the path of its source, in the order in which the pages are built."""
DIGIT = "digit.png"
"""The image that panels look at: the first of `digits`."""


def on_files(files: Files, config: MkDocsConfig) -> Files:
    pages = {"reference/command-line.md": reference.command_line(), "reference/python.md": reference.python()}
    for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md"):
        text = re.sub(r'(\]\(|(?:src|href)=")docs/', r"\1", (ROOT / name).read_text())
        pages["index.md" if name == "README.md" else name] = text.replace("](README.md", "](index.md")
    for one in lessons.lessons():
        pages[f"lessons/{one.name}.md"], panels = lessons.page(one, SHARE)
        pages |= {f"panels/{name}": text for name, text in panels.items()}
    for uri, text in pages.items():
        files.append(File.generated(config, uri, content=text))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    PLAIN_TEXT[page.file.src_uri] = re.sub(PICTURE + r"\n*", "", markdown)

    def block(match: re.Match[str]) -> str:
        language, content = match[1], match[2].strip()
        if language == "math":
            return convert(content, display="block")
        return look(content.removeprefix("glassformer look "), page, config, files)

    markdown = re.sub(r"\]\(\.\./((?:\.\./)*(?:SECURITY|CONTRIBUTING)\.md)", r"](\1", markdown)
    for path, name in SOURCES.items():
        markdown = re.sub(rf"\]\(\.\./((?:\.\./)*){re.escape(path)}", rf"](\1{name}", markdown)
    markdown = re.sub(rf"^```(math|look)\n(.*?)^```(?:\n\n{PICTURE})?", block, markdown, flags=re.M | re.S)
    return re.sub(r"\$`(.+?)`\$", lambda match: f"<span>{convert(match[1])}</span>", markdown)


def on_page_content(content: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Lines are not broken inside an option, nor in short code in a sentence."""
    whole = r'<span class="one-piece">\g<0></span>'
    content = re.sub(
        r'<div class="language-sh highlight">.*?</div>',
        lambda match: re.sub(r"--[\w.-]+", whole, match[0]),
        content,
        flags=re.S,
    )
    return re.sub(r"<code>([^<\n]{1,28})</code>", r'<code class="one-piece">\1</code>', content)


def on_post_build(config: MkDocsConfig) -> None:
    """Write all pages as one plain text, for programs that read documentation (https://llmstxt.org)."""
    title = f"# {config.site_name}\n\n> {config.site_description}"
    pages = (f"<!-- {uri} -->\n\n{text.strip()}" for uri, text in PLAIN_TEXT.items())
    Path(config.site_dir, "llms.txt").write_text("\n\n".join((title, *pages)) + "\n")


def look(command: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Return a frame with the page that `glassformer look …` writes, and the command below it."""
    made = panel_page(command)
    name = f"panels/{made.name}"
    panel = files.get_file_from_path(name)
    if panel is None:
        panel = File.generated(config, name, abs_src_path=str(made))
        files.append(panel)
    where = panel.url_relative_to(page.file)
    shown = html.escape(f"glassformer look {command}")
    return (
        f'<figure class="look"><iframe src="{where}" title="{shown}" loading="lazy"></iframe>'
        f'<figcaption><a href="{where}" target="_blank"><code>{shown}</code></a></figcaption></figure>'
    )


@cache
def panel_page(command: str) -> Path:
    """Write the page of `glassformer look COMMAND` and return its path. Missing runs are trained first."""
    for run in re.findall(r"runs/([\w-]+)", command):
        glassformer("train", *shlex.split(RUNS[run]), "--out", f"runs/{run}", "--resume", "--quiet")
    file = WORK / "panels" / f"{hashlib.sha256(command.encode()).hexdigest()[:12]}.html"
    file.parent.mkdir(exist_ok=True)
    if DIGIT in command:
        Image.fromarray(digit_images()[0][0, ..., 0]).save(WORK / DIGIT)
    glassformer("look", *shlex.split(command), "--out", str(file), "--quiet")
    return file


def glassformer(*command: str) -> None:
    """One command, in the folder of the pages' runs."""
    WORK.mkdir(parents=True, exist_ok=True)
    with contextlib.chdir(WORK), contextlib.redirect_stdout(io.StringIO()):
        code = main(command)
    if code:
        raise PluginError(f"failed: glassformer {shlex.join(command)}")
