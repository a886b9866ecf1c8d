# SPDX-License-Identifier: Apache-2.0
"""Puts the site's pages together and has Sphinx build them: build.py SOURCE BUILD XML OUT.

SOURCE: the repository. BUILD: its build folder, with example_start. XML: Doxygen's. OUT: the site.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import charts
import reference

# The pages in the order in which they are read: title of a part, [pages].
PARTS = [
    ("Begin", ["installing"]),
    ("Tutorials", ["tutorials/arrays", "tutorials/sharding", "tutorials/training", "tutorials/transformer",
                   "several-processes", "custom-partitioning", "from-jax", "explain", "profiling"]),
    ("How to", ["checkpoints", "ahead-of-time", "jax-plugin", "from-pytorch", "from-others", "accelerators", "host-callbacks",
                "custom-calls", "threads", "serving", "examples"]),
    ("Understand", ["concepts", "sharding-guide", "derivatives", "accuracy", "performance"]),
    ("Look up", ["reference/index", "reference/ops", "cli", "environment", "reference/errors", "compatibility"]),
    ("Take part", ["project/contributing", "architecture", "glossary", "internals", "adding-an-op", "adding-a-kernel",
                   "writing-a-pass", "building", "dependencies", "releases", "project/changes", "project/security"]),
]
COMPATIBILITY = [("reference/parity", "The public names of JAX, module by module, and which there are."),
                 ("reference/behaviours", "What JAX's sharding system does in detail, and which of it holds here."),
                 ("from-pjit", "Names of older versions of JAX."),
                 ("jax-plugin", "What JAX programs can do on the plugin.")]
# Files of the repository that are pages besides those of docs.
OTHERS = {"README.md": "index", "docs/start.md": "index", "CHANGELOG.md": "project/changes",
          "CONTRIBUTING.md": "project/contributing", "SECURITY.md": "project/security", "examples/README.md": "examples"}


class Site:
    def __init__(self, source, build, staged):
        self.source, self.build, self.staged = source, build, staged
        self.pages = {}  # path in the repository -> page
        for path in sorted((source / "docs").rglob("*.md")):
            relative = path.relative_to(source)
            self.pages[str(relative)] = str(relative.relative_to("docs").with_suffix(""))
        self.pages.update(OTHERS)

    def link(self, path, page, target):
        """Where a link of the file `path` leads on the site; None if to nothing that is there."""
        target, _, anchor = target.partition("#")
        anchor = "#" + anchor if anchor else ""
        if not target:
            return anchor
        there = os.path.normpath(os.path.join(os.path.dirname(path), target))
        if there in self.pages:
            return os.path.relpath(self.pages[there] + ".md", os.path.dirname(page) or ".") + anchor
        file = self.source / there
        if not file.is_file():
            return None
        # As text, whatever its name is: browsers show it.
        copy = self.staged / "_extra" / "files" / (there + ".txt")
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, copy)
        return "path:" + os.path.relpath("files/" + there + ".txt", os.path.dirname(page) or ".")

    def text(self, path):
        """The page's Markdown with its links as they are on the site."""
        page = self.pages[path]
        out, code = [], False
        for line in (self.source / path).read_text().split("\n"):
            if re.match(r" *```", line):
                code = not code
            out.append(line if code else self.line(path, page, line))
        return "\n".join(out)

    def line(self, path, page, line):
        def replaced(match):
            text, target = match.group(1), match.group(2)
            if re.match(r"[a-z]+:", target):
                return match.group(0)
            there = self.link(path, page, target)
            if there is None:
                return text
            if there.startswith("path:"):
                # Sphinx would look for a page: plain HTML.
                return '<a href="%s">%s</a>' % (there[5:], re.sub(r"`([^`]*)`", r"<code>\1</code>", text))
            return "[%s](%s)" % (text, there)
        return re.sub(r"\[([^\[\]]*)\]\(([^()\s]*)\)", replaced, line)

    def write(self, page, text):
        file = self.staged / (page + ".md")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def explain_page(self):
        """The page of the start page's program, which it writes itself."""
        env = dict(os.environ, TESSERA_ENGINE="in_process", TESSERA_NUM_DEVICES="8")
        subprocess.run([self.build / "example_start", self.staged / "_extra" / "explain-example.html"], check=True, env=env,
                       stdout=subprocess.DEVNULL)

    def stage(self, xml):
        (self.staged / "_extra").mkdir(parents=True)
        shutil.copytree(self.source / "site" / "static", self.staged / "_static")
        shutil.copyfile(self.source / "site" / "conf.py", self.staged / "conf.py")
        for path, page in self.pages.items():
            if path != "README.md":
                self.write(page, self.text(path))
        self.explain_page()
        self.start()
        self.performance()
        internals = sorted(p for p in self.pages.values() if p.startswith("internals/"))
        self.write("internals", "# Internals\n\nA page for each larger part; [the architecture](architecture.md) leads through "
                   "them.\n\n```{toctree}\n:maxdepth: 1\n\n" + "\n".join(internals) + "\n```\n")
        rows = "\n".join("- [%s](%s.md): %s" % (self.title(p), p, text) for p, text in COMPATIBILITY)
        self.write("compatibility", "# Compatibility\n\n" + rows +
                   "\n\n```{toctree}\n:hidden:\n\nreference/parity\nreference/behaviours\nfrom-pjit\n```\n")
        _, count = reference.write(xml, self.source / "include", self.staged / "reference")
        return count

    def title(self, page):
        return (self.staged / (page + ".md")).read_text().split("\n", 1)[0].lstrip("# ")

    def start(self):
        text = (self.staged / "index.md").read_text()
        text = text.replace("<!-- site: explain -->", "The whole report, as the program writes it to a file (<a href=\""
                            "explain-example.html\">by itself</a>):\n\n<iframe class=\"explain\" src=\"explain-example.html\" "
                            "title=\"Why the program communicates\" loading=\"lazy\"></iframe>")
        for title, pages in PARTS:
            there = [p for p in pages if (self.staged / (p + ".md")).exists() or p in (
                "internals", "compatibility", "reference/index")]
            text += "\n```{toctree}\n:hidden:\n:caption: %s\n\n%s\n```\n" % (title, "\n".join(there))
        self.write("index", "---\nhide-toc: true\n---\n\n" + text)

    def performance(self):
        text = (self.staged / "performance.md").read_text()
        drawn = charts.of_table(text) + [charts.of_sweeps(self.source / "bench" / "data")]
        at = text.index("\n| program |")
        text = text[:at] + "\n```{raw} html\n" + "\n".join(drawn) + "\n```\n" + text[at:]
        self.write("performance", text)


def main():
    source, build, xml, out = (pathlib.Path(a).resolve() for a in sys.argv[1:5])
    with tempfile.TemporaryDirectory() as folder:
        site = Site(source, build, pathlib.Path(folder))
        count = site.stage(xml)
        shutil.rmtree(out, ignore_errors=True)
        made = subprocess.run([sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-b", "html",
                               "-d", site.staged / "_doctrees", folder, out], check=False)
        (out / ".buildinfo").unlink(missing_ok=True)
        print("%d public symbols" % count)
        return made.returncode


if __name__ == "__main__":
    sys.exit(main())
