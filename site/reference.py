# SPDX-License-Identifier: Apache-2.0
"""The reference: a page for each public header, of Doxygen's XML."""
import collections
import pathlib
import re
import textwrap
import xml.etree.ElementTree as ElementTree

MEMBERS = {"public-func", "public-type", "public-attrib", "public-static-func", "public-static-attrib", "func", "typedef",
           "enum", "var", "define", "user-defined", "friend"}


def flat(element):
    """The text of an element and all in it, without space around it."""
    return " ".join("".join(element.itertext()).split()) if element is not None else ""


class Writer:
    """Turns descriptions into Markdown. `where` says on which page a symbol is, by Doxygen's id."""

    def __init__(self, where):
        self.where = where

    def inline(self, element):
        out = [self.escape(element.text or "")]
        for child in element:
            out.append(self.one(child))
            out.append(self.escape(child.tail or ""))
        return "".join(out)

    @staticmethod
    def escape(text):
        return re.sub(r"([\\`*_<>\[\]{}|$])", r"\\\1", text)

    def one(self, e):
        if e.tag == "computeroutput":
            text = flat(e).replace("`", "'")
            return "`%s`" % text if text else ""
        if e.tag == "ref":
            target = self.where.get(e.get("refid"))
            text = self.inline(e)
            return "[%s](#%s)" % (text, target) if target else text
        if e.tag in ("emphasis", "bold"):
            mark = "*" if e.tag == "emphasis" else "**"
            return mark + self.inline(e) + mark
        if e.tag == "ulink":
            return "[%s](%s)" % (self.inline(e), e.get("url"))
        if e.tag == "sp":
            return " "
        if e.tag in ("ndash", "mdash"):
            return "-"
        return self.inline(e)

    def blocks(self, element):
        """The paragraphs of a description, as a list of Markdown blocks."""
        out = []
        for para in element:
            if para.tag == "para":
                out += self.para(para)
        return out

    def para(self, para):
        out, line = [], [self.escape(para.text or "")]

        def flush():
            text = " ".join("".join(line).split())
            if text:
                out.append(text)
            line.clear()

        for child in para:
            block = self.block(child)
            if block is None:
                line.append(self.one(child))
            else:
                flush()
                out.extend(block)
            line.append(self.escape(child.tail or ""))
        flush()
        return out

    def block(self, e):
        if e.tag in ("programlisting", "verbatim", "preformatted"):
            lines = [self.code(line) for line in e.findall("codeline")] if e.tag == "programlisting" else [e.text or ""]
            return ["```cpp\n" + "\n".join(lines).strip("\n") + "\n```"]
        if e.tag == "parameterlist":
            title = {"param": "Parameters", "templateparam": "Template parameters", "exception": "Throws"}
            rows, code = [], []
            for item in e.findall("parameteritem"):
                names = ", ".join("`%s`" % flat(n) for n in item.iter("parametername"))
                blocks = self.blocks(item.find("parameterdescription"))
                code += [b for b in blocks if b.startswith("```")]
                rows.append("- %s %s" % (names, " ".join(b for b in blocks if not b.startswith("```"))))
            return ["**%s**\n\n%s" % (title.get(e.get("kind"), e.get("kind")), "\n".join(rows))] + code
        if e.tag == "simplesect":
            title = {"return": "Returns", "note": "Note", "see": "See", "pre": "Before", "warning": "Warning"}
            return ["**%s** " % title.get(e.get("kind"), e.get("kind")) + "\n\n".join(self.blocks(e))]
        if e.tag in ("itemizedlist", "orderedlist"):
            mark = "- " if e.tag == "itemizedlist" else "1. "
            rows = []
            for item in e.findall("listitem"):
                text = "\n\n".join(self.blocks(item))
                rows.append(mark + textwrap.indent(text, " " * len(mark)).lstrip())
            return ["\n".join(rows)]
        if e.tag == "para":
            return self.para(e)
        return None

    @staticmethod
    def code(line):
        out = []
        for part in line.iter():
            if part.tag == "sp":
                out.append(" ")
            if part.text:
                out.append(part.text)
            if part.tail and part is not line:
                out.append(part.tail)
        return "".join(out)


def signature(member):
    """The declaration, as it would be written."""
    kind = member.get("kind")
    name = member.findtext("name")
    parts = []
    template = member.find("templateparamlist")
    if template is not None:
        shown = []
        for p in template.findall("param"):
            text = flat(p.find("type"))
            declared = p.findtext("declname")
            if declared and not text.endswith(declared):
                text += " " + declared
            if p.find("defval") is not None:
                text += " = " + flat(p.find("defval"))
            shown.append(text)
        parts.append("template <" + ", ".join(shown) + ">\n")
    if kind == "enum":
        values = [v.findtext("name") for v in member.findall("enumvalue")]
        strong = "enum class " if member.get("strong") == "yes" else "enum "
        return strong + name + " { " + ", ".join(values) + " };"
    if kind == "typedef":
        return "".join(parts) + tidy(member.findtext("definition").replace("tessera::", "")) + ";"
    if kind == "define":
        params = [p.findtext("defname") or "" for p in member.findall("param")]
        return "#define " + name + ("(" + ", ".join(params) + ")" if params else "")
    type_ = flat(member.find("type"))
    text = (type_ + " " if type_ else "") + name
    if member.get("static") == "yes":
        text = "static " + text
    if kind in ("function", "friend"):
        text += member.findtext("argsstring") or ""
    else:
        text += flat(member.find("initializer")) and " " + flat(member.find("initializer")) or ""
    return "".join(parts) + tidy(text) + ";"


def tidy(text):
    """Spaces as clang-format sets them, and long lists of parameters on lines of their own."""
    text = re.sub(r"\s+([&*]+)", r"\1 ", text)
    text = re.sub(r"<\s+", "<", text)
    text = re.sub(r"\s+>", ">", text)
    text = re.sub(r"\s+", " ", text).replace(" ,", ",").replace("( ", "(").replace(" )", ")").replace("& )", "&)")
    text = re.sub(r"([\w&*>])\s*=(?=[\w{\"'-])", r"\1 = ", text)
    if len(text) > 100:
        depth, out = 0, []
        for c in text:
            depth += c in "(<{["
            depth -= c in ")>}]"
            out.append(c)
            if c == "," and depth == 1:
                out.append("\n   ")
        text = "".join(out)
    return text


class Reference:
    def __init__(self, xml):
        self.compounds = []
        self.groups = collections.defaultdict(list)  # header -> [(line, name, [members], parent)]
        self.where = {}
        self.emitted = set()
        for file in sorted(pathlib.Path(xml).glob("*.xml")):
            if not file.name.startswith(("class", "struct", "namespacetessera", "concept", "union")):
                continue
            for compound in ElementTree.parse(file).getroot().findall("compounddef"):
                if "internal" not in compound.findtext("compoundname").split("::"):
                    self.compounds.append(compound)
        for compound in self.compounds:
            self.enter(compound)
        self.writer = Writer(self.where)

    @staticmethod
    def header_of(element):
        location = element.find("location")
        return location.get("declfile") or location.get("file") if location is not None else None

    def members(self, compound):
        for section in compound.findall("sectiondef"):
            if section.get("kind") in MEMBERS:
                for member in section.findall("memberdef"):
                    # What is for internal use says so, or is of a namespace of its own.
                    if member.get("prot") == "public" and "internal::" not in (member.findtext("qualifiedname") or ""):
                        yield member

    def enter(self, compound):
        name = compound.findtext("compoundname")
        is_namespace = compound.get("kind") == "namespace"
        if not is_namespace:
            header = self.header_of(compound)
            if not header or "<" in name.split("::")[-1]:
                return  # partial specialisations are the template's
            self.where[compound.get("id")] = compound.get("id").lower()
            self.groups[header].append((int(compound.find("location").get("line")), name, [compound], None))
        grouped = collections.OrderedDict()
        for member in self.members(compound):
            header = self.header_of(member)
            self.where[member.get("id")] = member.get("id").lower()
            if is_namespace:
                short = re.sub(r"^tessera::", "", name + "::" + member.findtext("name"))
                grouped.setdefault((header, short), []).append(member)
        for (header, short), members in grouped.items():
            if header:
                line = min(int(m.find("location").get("line")) for m in members)
                self.groups[header].append((line, short, members, name))

    def described(self, element):
        out = []
        for tag in ("briefdescription", "detaileddescription"):
            if element.find(tag) is not None:
                out += self.writer.blocks(element.find(tag))
        if element.get("kind") == "enum":
            rows = ["- `%s` %s" % (v.findtext("name"), " ".join(self.described(v))) for v in element.findall("enumvalue")]
            out.append("\n".join(rows))
        return out

    def overloads(self, members):
        """Each declaration with what is said of it; those of which nothing is said go with the one before."""
        out = []
        for member in members:
            text = self.described(member)
            if text and text[0].startswith("For internal use"):
                continue
            code = signature(member)
            if not text and out and out[-1][2]:
                out[-1][1] += "\n" + code
                out[-1][0].append(member.get("id"))
            else:
                out.append([[member.get("id")], code, text])
        blocks = []
        for ids, code, text in out:
            self.emitted.update(ids)
            blocks += ["(%s)=" % self.where[i] for i in ids]
            blocks.append("```cpp\n" + code + "\n```")
            blocks += text
        return blocks

    def page(self, header, first_comment):
        groups = sorted(self.groups[header], key=lambda g: g[0])
        out = ["# `<%s>`" % header, first_comment]
        for _, name, members, namespace in groups:
            short = re.sub(r"^tessera::", "", name)
            if namespace is not None:
                blocks = self.overloads(members)
                out += ["## `%s`" % short] + blocks if blocks else []
                continue
            out.append("## `%s`" % short)
            compound = members[0]
            out.insert(len(out) - 1, "(%s)=" % self.where[compound.get("id")])
            kind = compound.get("kind")
            bases = [flat(b) for b in compound.findall("basecompoundref") if "internal" not in flat(b)]
            if kind != "concept":
                out.append("```cpp\n%s %s%s;\n```" % (kind, short, " : public " + ", ".join(bases) if bases else ""))
            out += self.described(compound)
            by_name = collections.OrderedDict()
            for member in self.members(compound):
                by_name.setdefault(member.findtext("name"), []).append(member)
            for member_name, list_ in by_name.items():
                blocks = self.overloads(list_)
                if blocks:
                    out += ["### `%s::%s`" % (short, member_name)] + blocks
        return "\n\n".join(out) + "\n"

    def names(self):
        """(name, page, anchor) of every symbol that the pages have."""
        for header, groups in self.groups.items():
            for _, name, members, namespace in groups:
                shown = [m.get("id") for m in members if namespace is None or m.get("id") in self.emitted]
                if shown:
                    yield re.sub(r"^tessera::", "", name), header, self.where[shown[0]]


def first_comment(path):
    lines = []
    for line in path.read_text().splitlines()[1:]:
        if not line.startswith("//"):
            break
        lines.append(line[2:].strip())
    return Writer.escape(" ".join(lines))


def write(xml, include, out):
    """Writes the pages; returns the headers in order and the number of symbols."""
    reference = Reference(xml)
    out.mkdir(parents=True, exist_ok=True)
    pages = []
    for header in sorted(reference.groups):
        path = include / header
        if not path.exists():
            continue
        stem = header.removeprefix("tessera/").removesuffix(".h").replace("/", "-")
        (out / (stem + ".md")).write_text(reference.page(header, first_comment(path)))
        pages.append((header, stem, first_comment(path)))
    names = sorted(set(reference.names()), key=lambda n: (n[0].lower(), n[1]))
    rows = ["| symbol | header |", "| --- | --- |"]
    stems = {header: stem for header, stem, _ in pages}
    for name, header, anchor in names:
        if header in stems:
            rows.append("| [`%s`](#%s) | [`<%s>`](%s.md) |" % (name, anchor, header, stems[header]))
    (out / "symbols.md").write_text("# All symbols\n\n" + "\n".join(rows) + "\n")
    index = ["# Reference", "Every public symbol, header by header; `#include <tessera/tessera.h>` includes all.",
             "[All symbols by name](symbols.md)", "| header | what it has |\n| --- | --- |\n" + "\n".join(
                 "| [`<%s>`](%s.md) | %s |" % page for page in pages),
             "```{toctree}\n:hidden:\n\nsymbols\n" + "\n".join(stem for _, stem, _ in pages) + "\n```"]
    (out / "index.md").write_text("\n\n".join(index) + "\n")
    return pages, len(names)
