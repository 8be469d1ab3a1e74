"""What MkDocs does beside its own: it reads the pages from where they are in the repository, and makes the reference.

The site has the layout of the repository, so a link between two pages is the same on the site and in the repository.
"""

import re

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from site_commands import ROOT
from site_commands import pages as repository_pages
from site_reference import PAGES, index

REPOSITORY = "https://github.com/vscaf/vscaf/blob/main/"
"""How the pages of the Ansible collection link to others: the collection is installed without them."""
LINK = re.compile(r"\]\(([\w./-]+)(?:#[\w-]+)?\)")
ELSEWHERE = re.compile(r"""<(?:script|img|iframe|link)\b[^>]*\b(?:src|href)=["']?(?:https?:)?//[^>]*>""")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """The theme's files, all pages of the repository, the files that they link to, and the generated reference."""
    of_theme = [file for file in files if file.generated_by or not str(file.abs_src_path).startswith(config.docs_dir)]
    pages = repository_pages()
    linked = {
        (page.parent / link).resolve() for page in pages for link in LINK.findall(page.read_text(encoding="utf-8"))
    }
    others = {path for path in linked if path.is_file() and path.suffix != ".md" and path.is_relative_to(ROOT)}
    site = Files(of_theme)
    for path in sorted({*pages, *others, *(ROOT / name for name in config.extra_css)}):
        site.append(File.generated(config, str(path.relative_to(ROOT)), abs_src_path=str(path)))
    for name, page_text in PAGES.items():
        site.append(File.generated(config, f"docs/reference/{name}.md", content=page_text()))
    return site


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Links by the repository's address lead to the site's pages, so that they are checked and need no network. The
    list of generated pages is on the page that stands for them in the repository.
    """
    markdown = markdown.replace(f"]({REPOSITORY}", "](" + "../" * page.file.src_uri.count("/"))
    return f"{markdown}\n{index()}" if page.file.src_uri == "docs/reference/README.md" else markdown


def on_post_page(output: str, page: Page, config: MkDocsConfig) -> str:
    """Refuses a page that loads something from another site: the documentation is read without a network."""
    if found := ELSEWHERE.search(output):
        raise PluginError(f"{page.file.src_uri} loads something from elsewhere: {found[0]}")
    return output
