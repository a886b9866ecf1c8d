// SPDX-License-Identifier: Apache-2.0
// The report as a page.
#include <string>

#include "src/base/check.h"
#include "src/compiler/explain/page.h"

namespace tessera {
namespace {

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : compiler::explain::JsonWriter::valid_utf8(text)) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

}  // namespace

std::string Explanation::to_html() const {
  using namespace compiler::explain;
  JsonWriter w;
  w.begin('{');
  write_report(w, *this);
  w.key("node_width").number(kNodeWidth);
  w.key("node_height").number(kNodeHeight);
  w.key("drawings").begin('[');
  for (const Drawing& d : draw(*this)) {
    w.begin('{');
    w.key("computation").string(d.computation);
    w.key("all").number(double(d.all));
    w.key("nodes").begin('[');
    for (const Drawing::Node& n : d.nodes) {
      w.begin('[');
      w.number(double(n.value));
      w.number(double(std::int64_t(n.x)));
      w.number(double(std::int64_t(n.y)));
      w.end(']');
    }
    w.end(']');
    w.key("edges").begin('[');
    for (const auto& [a, b] : d.edges) {
      w.begin('[');
      w.number(a);
      w.number(b);
      w.end(']');
    }
    w.end(']');
    w.end('}');
  }
  w.end(']');
  w.end('}');
  const std::string page = kPage;
  std::string out;
  std::size_t from = 0;
  const std::pair<std::string, std::string> parts[] = {{"@@TITLE@@", escaped(module_)},
                                                       {"@@DATA@@", w.take()}};
  for (const auto& [mark, text] : parts) {
    const std::size_t at = page.find(mark, from);
    TESSERA_CHECK(at != std::string::npos, "the page lacks " + mark);
    out += page.substr(from, at - from) + text;
    from = at + mark.size();
  }
  return out + page.substr(from);
}

}  // namespace tessera
