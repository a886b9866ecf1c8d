// SPDX-License-Identifier: Apache-2.0
// What a report is written as: JSON, a page, and the drawing on the page.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>

#include "src/compiler/explain/page.h"
#include "tests/compiler/explain_case.h"

namespace tessera::testing {
namespace {

using compiler::explain_module;
using Json = nlohmann::ordered_json;

TEST(ExplainJson, HasWhatTheObjectHas) {
  const auto module = parse(layer(R"({"data"}, {})", R"({"model"}, {})", R"({"data"}, {"model"})"));
  const Explanation e = explain_module(*module);
  const Json j = Json::parse(e.to_json());
  EXPECT_EQ(j["module"], e.module());
  EXPECT_EQ(j["devices"], 8);
  EXPECT_EQ(j["mesh"], "data=2, model=4");
  EXPECT_EQ(j["total_bytes"].get<double>(), e.total_bytes());
  ASSERT_EQ(j["entries"].size(), e.entries().size());
  double sum = 0;
  for (std::size_t k = 0; k < e.entries().size(); ++k) {
    const Json& entry = j["entries"][k];
    EXPECT_EQ(entry["op"], e.entries()[k].op);
    EXPECT_EQ(entry["location"], e.entries()[k].location);
    EXPECT_EQ(entry["from_because"].size(), e.entries()[k].from_because.size());
    EXPECT_EQ(entry["suggestion"].is_null(), !e.entries()[k].suggestion);
    for (const Json& c : entry["collectives"]) {
      if (c["counted"].get<bool>()) sum += c["bytes"].get<double>() * c["times"].get<double>();
    }
  }
  EXPECT_EQ(sum, e.total_bytes());
  EXPECT_EQ(j["values"].size(), e.values().size());
}

/// Text that would end a script, an attribute or a string, were it not escaped.
Explanation nasty() {
  Explanation::Parts parts;
  parts.module = "</title><script>alert(1)</script>\"'&";
  parts.devices = 8;
  ExplainEntry e;
  e.op = "</script><img src=x onerror=alert(2)>";
  e.op_name = std::string("a\tb\n\"c\\ \xff\xc0\x80 \x01", 13);
  e.location = "<!--";
  e.bytes = 1;
  parts.entries.push_back(e);
  ExplainValue v;
  v.name = "]]>";
  v.op = "<svg/onload=alert(3)>";
  v.computation = "main";
  v.entries = {0};
  parts.values.push_back(v);
  return Explanation(std::move(parts));
}

TEST(ExplainJson, AnyTextIsWritten) {
  const Json j = Json::parse(nasty().to_json());
  EXPECT_EQ(j["entries"][0]["op"], "</script><img src=x onerror=alert(2)>");
  EXPECT_TRUE(has(j["entries"][0]["op_name"].get<std::string>(), "a\tb\n\"c\\ \uFFFD\uFFFD\uFFFD"));
}

TEST(ExplainHtml, NeedsNothingElse) {
  const auto module = parse(layer(R"({"data"}, {})", R"({"model"}, {})", R"({"data"}, {})"));
  const std::string page = explain_module(*module).to_html();
  for (const char* word : {"http:", "https:", "//cdn", "src=", "@import", "url(", "<link", "fetch(",
                           "XMLHttpRequest", "innerHTML", "eval(", "@@"}) {
    EXPECT_FALSE(has(page, word)) << word;
  }
  EXPECT_TRUE(has(page, "default-src 'none'"));
  EXPECT_EQ(page.rfind("<!DOCTYPE html>", 0), 0u);
  EXPECT_TRUE(has(page, "</html>"));
}

TEST(ExplainHtml, EscapesAllText) {
  const std::string page = nasty().to_html();
  EXPECT_FALSE(has(page, "<img"));
  EXPECT_FALSE(has(page, "<svg"));
  EXPECT_FALSE(has(page, "<script>alert"));
  EXPECT_FALSE(has(page, "<!--"));
  EXPECT_TRUE(
      has(page, "<title>&lt;/title&gt;&lt;script&gt;alert(1)&lt;/script&gt;&quot;&#39;&amp;"));
  // One data script and one program, each closed once.
  std::size_t open = 0, close = 0;
  for (std::size_t at = page.find("<script"); at != std::string::npos;
       at = page.find("<script", at + 1)) {
    ++open;
  }
  for (std::size_t at = page.find("</script"); at != std::string::npos;
       at = page.find("</script", at + 1)) {
    ++close;
  }
  EXPECT_EQ(open, 2u);
  EXPECT_EQ(close, 2u);
  // What the page reads is the same JSON, and more.
  const std::string mark = "id=\"data\">";
  const std::size_t from = page.find(mark) + mark.size();
  const Json j = Json::parse(page.substr(from, page.find("</script", from) - from));
  EXPECT_EQ(j["module"], "</title><script>alert(1)</script>\"'&");
  EXPECT_EQ(j["drawings"].size(), 1u);
}

/// A chain of n additions beside each other.
Explanation long_program(int n) {
  Explanation::Parts parts;
  parts.module = "long";
  for (int k = 0; k < n; ++k) {
    ExplainValue v;
    v.name = "v" + std::to_string(k);
    v.op = "add";
    v.computation = "main";
    if (k >= 3) v.operands = {k - 1, k - 3};
    if (k % 1000 == 500) v.entries = {0};
    parts.values.push_back(std::move(v));
  }
  parts.entries.emplace_back();
  return Explanation(std::move(parts));
}

TEST(ExplainDrawing, DrawsOperandsAboveUsersWithoutOverlaps) {
  using compiler::explain::Drawing;
  const Explanation e = long_program(1500);
  const std::vector<Drawing> all = compiler::explain::draw(e);
  ASSERT_EQ(all.size(), 1u);
  const Drawing& d = all[0];
  EXPECT_EQ(d.nodes.size(), 1500u);
  EXPECT_EQ(d.all, 1500u);
  for (const auto& [a, b] : d.edges) {
    EXPECT_LT(d.nodes[std::size_t(a)].y, d.nodes[std::size_t(b)].y);
  }
  std::map<double, std::vector<double>> rows;
  for (const Drawing::Node& n : d.nodes) rows[n.y].push_back(n.x);
  for (auto& [y, xs] : rows) {
    std::sort(xs.begin(), xs.end());
    for (std::size_t k = 1; k < xs.size(); ++k) {
      EXPECT_GE(xs[k] - xs[k - 1], compiler::explain::kNodeWidth);
    }
  }
}

TEST(ExplainDrawing, LongProgramsAreReducedToMovementsAndAnnotations) {
  const auto all = compiler::explain::draw(long_program(20000));
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].all, 20000u);
  EXPECT_LE(all[0].nodes.size(), compiler::explain::kMaxNodes);
  EXPECT_GE(all[0].nodes.size(), 20u);
}

}  // namespace
}  // namespace tessera::testing
