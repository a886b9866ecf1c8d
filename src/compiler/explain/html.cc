// SPDX-License-Identifier: Apache-2.0
// The report as a page.
#include <string>

#include "src/base/check.h"
#include "src/compiler/explain/json.h"
#include "src/compiler/explain/page.h"

namespace tessera {
namespace {

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
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
  Json data = report_json(*this);
  data["node_width"] = kNodeWidth;
  data["node_height"] = kNodeHeight;
  data["drawings"] = Json::array();
  for (const Drawing& d : draw(*this)) {
    Json nodes = Json::array();
    for (const Drawing::Node& n : d.nodes) {
      nodes.push_back(Json::array({n.value, std::int64_t(n.x), std::int64_t(n.y)}));
    }
    data["drawings"].push_back({{"computation", d.computation},
                                {"all", d.all},
                                {"nodes", std::move(nodes)},
                                {"edges", d.edges}});
  }
  const std::string page = kPage;
  std::string out;
  std::size_t from = 0;
  const std::pair<std::string, std::string> parts[] = {
      {"@@TITLE@@", escaped(module_)}, {"@@DATA@@", compiler::explain::to_text(data)}};
  for (const auto& [mark, text] : parts) {
    const std::size_t at = page.find(mark, from);
    TESSERA_CHECK(at != std::string::npos, "the page lacks " + mark);
    out += page.substr(from, at - from) + text;
    from = at + mark.size();
  }
  return out + page.substr(from);
}

}  // namespace tessera
