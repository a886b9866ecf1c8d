// SPDX-License-Identifier: Apache-2.0
// Programs for thousands of devices that are looked at: what is made of them doesn't grow with the
// devices, whatever the axes and the order of the mesh.
#include <gtest/gtest.h>

#include <regex>
#include <set>

#include "src/compiler/compile.h"
#include "src/compiler/read_module.h"
#include "src/ir/hlo/hlo_text.h"
#include "src/text/read/stablehlo.h"

namespace tessera::compiler {
namespace {

std::string quoted(const std::vector<std::string>& names) {
  std::string out;
  for (const std::string& n : names) out += (out.empty() ? "\"" : ", \"") + n + "\"";
  return "{" + out + "}";
}

/// Three layers on an array that the first axes split, with weights that the others split.
std::unique_ptr<ir::Module> layers(const std::vector<std::int64_t>& sizes, std::size_t data,
                                   const std::string& order = "") {
  std::vector<std::string> rows, columns;
  std::string mesh;
  for (std::size_t a = 0; a < sizes.size(); ++a) {
    const std::string name = "a" + std::to_string(a);
    (a < data ? rows : columns).push_back(name);
    mesh += (a > 0 ? ", \"" : "\"") + name + "\"=" + std::to_string(sizes[a]);
  }
  const std::string x = "tensor<65536x4096xf32>", w = "tensor<4096x4096xf32>";
  const std::string sharding = " {sdy.sharding = #sdy.sharding<@mesh, [";
  std::string text = "module @layers {\n  sdy.mesh @mesh = <[" + mesh + "]" + order + ">\n" +
                     "  func.func public @main(%x0: " + x + sharding + quoted(rows) + ", {}]>}";
  std::string body;
  for (int k = 0; k < 3; ++k) {
    const std::string n = std::to_string(k), next = std::to_string(k + 1);
    text += ", %v" + n + ": " + w + sharding + "{}, " + quoted(columns) + "]>}";
    text += ", %w" + n + ": " + w + sharding + quoted(columns) + ", {}]>}";
    const std::string dot = ", contracting_dims = [1] x [0] : (" + x + ", " + w + ") -> " + x;
    body += "    %a" + n + " = stablehlo.dot_general %x" + n + ", %v" + n + dot + "\n";
    body += "    %t" + n + " = stablehlo.tanh %a" + n + " : " + x + "\n";
    body += "    %x" + next + " = stablehlo.dot_general %t" + n + ", %w" + n + dot + "\n";
  }
  text += ") -> (" + x + sharding + quoted(rows) + ", {}]>}) {\n" + body + "    return %x3 : " + x +
          "\n  }\n}\n";
  return read_module(text, "layers.mlir");
}

std::string partitioned(std::unique_ptr<ir::Module> module) {
  Options options;
  options.runs = false;
  options.layouts = Layouts::propagated;
  return ir::to_string(compile(std::move(module), options)->partitioned());
}

/// Opcodes, in order.
std::vector<std::string> opcodes(const std::string& text) {
  std::vector<std::string> out;
  static const std::regex form(R"(= \S+ ([a-z-]+)\()");
  for (std::sregex_iterator i(text.begin(), text.end(), form), end; i != end; ++i) {
    out.push_back((*i)[1]);
  }
  return out;
}

std::set<std::string> groups(const std::string& text) {
  std::set<std::string> out;
  static const std::regex form(R"(replica_groups=(\S+?), )");
  for (std::sregex_iterator i(text.begin(), text.end(), form), end; i != end; ++i) {
    out.insert((*i)[1]);
  }
  return out;
}

TEST(ManyDevices, ProgramsAreTheSameOnAnyAxesAndHardlyLongerThanForFew) {
  const std::string few = partitioned(layers({4, 2}, 1));
  const std::vector<std::string> wanted = opcodes(partitioned(layers({512, 128}, 1)));
  EXPECT_EQ(groups(few), std::set<std::string>{"{{0,1},{2,3},{4,5},{6,7}}"});
  for (const auto& [sizes, data] : std::vector<std::pair<std::vector<std::int64_t>, std::size_t>>{
           {{512, 128}, 1}, {{16, 32, 128}, 2}, {std::vector<std::int64_t>(16, 2), 9}}) {
    const std::string many = partitioned(layers(sizes, data));
    EXPECT_EQ(opcodes(many), wanted);
    EXPECT_EQ(groups(many), std::set<std::string>{"[512,128]<=[65536]"});
    EXPECT_LT(many.size(), few.size() + few.size() / 2);
  }
}

TEST(ManyDevices, TransposedOrdersStayShort) {
  std::string order = ", device_ids=[";
  for (int p = 0; p < 4096; ++p) {
    order += (p > 0 ? "," : "") + std::to_string(p % 32 * 128 + p / 32);
  }
  const std::string many = partitioned(layers({128, 32}, 1, order + "]"));
  EXPECT_EQ(groups(many), std::set<std::string>{"[128,32]<=[32,128]T(1,0)"});
  EXPECT_LT(many.size(), 20000u);
}

/// Some order of devices that is no transpose.
std::string mixed_order(std::int64_t devices, std::int64_t step) {
  std::string order = ", device_ids=[";
  for (std::int64_t p = 0; p < devices; ++p) {
    order += (p > 0 ? ", " : "") + std::to_string((p * step + 3) % devices);
  }
  return order + "]";
}

/// Each line of a module's text is that of its instruction alone, of which nothing was known.
void expect_texts_of_instructions(const ir::Module& module, const ir::PrintOptions& options = {}) {
  const std::string text = ir::to_string(module, options);
  for (const auto& c : module.computations()) {
    for (const auto& i : c->instructions()) {
      const std::string line =
          (i.get() == c->root() ? "  ROOT " : "  ") + ir::to_string(*i, options) + "\n";
      EXPECT_NE(text.find(line), std::string::npos) << line;
    }
  }
}

TEST(ManyDevices, ListsOfDevicesAreWrittenAsIfEachWereTheFirst) {
  // Shardings on two orders whose axes are the same: also with groups, and several axes of a dim.
  const std::string mesh = "[\"x\"=16, \"y\"=8]", x = "tensor<256x128xf32>";
  const std::string text = "module @two {\n  sdy.mesh @one = <" + mesh + mixed_order(128, 45) +
                           ">\n  sdy.mesh @other = <" + mesh + mixed_order(128, 77) +
                           ">\n  func.func public @main(%a: " + x +
                           " {sdy.sharding = #sdy.sharding<@one, [{\"x\"}, {\"y\"}]>}, %b: " + x +
                           " {sdy.sharding = #sdy.sharding<@other, [{\"x\"}, {\"y\"}]>}, %c: " + x +
                           " {sdy.sharding = #sdy.sharding<@one, [{}, {\"y\", \"x\"}]>}, %d: " + x +
                           " {sdy.sharding = #sdy.sharding<@one, [{\"x\"}, {\"y\"}]>}, %e: " + x +
                           " {sdy.sharding = #sdy.sharding<@one, [{\"x\", \"y\"}, {}]>}) -> " + x +
                           " {\n    return %a : " + x + "\n  }\n}\n";
  const std::unique_ptr<ir::Module> module = read_module(text, "two.mlir");
  const auto& parameters = module->entry()->parameters();
  std::set<std::string> tilings;
  const std::regex form(R"(sharding=\{devices=\[\S+)");
  for (const ir::Instruction* p : parameters) {
    std::smatch found;
    const std::string line = ir::to_string(*p);
    ASSERT_TRUE(std::regex_search(line, found, form)) << line;
    tilings.insert(found[0]);
  }
  EXPECT_EQ(tilings.size(), 4u);
  expect_texts_of_instructions(*module);
  std::string order;
  for (const std::int64_t d : parameters[1]->sharding[0].mesh->device_ids) {
    order += (order.empty() ? "ids{" : ",") + std::to_string(d);
  }
  ir::PrintOptions canonical;
  canonical.canonical = true;
  EXPECT_NE(ir::to_string(*module, canonical).find(order + "}"), std::string::npos);
}

TEST(ManyDevices, GroupsOnMixedOrdersAreListed) {
  Options options;
  options.runs = false;
  options.layouts = Layouts::propagated;
  const auto compiled = compile(layers({32, 8}, 1, mixed_order(256, 99)), options);
  const ir::Module& module = compiled->partitioned();
  expect_texts_of_instructions(module);
  const std::string stable = text::to_stablehlo(module);
  std::size_t met = 0;
  for (const auto& i : module.entry()->instructions()) {
    const auto* attrs = i->attrs.get_if<ir::CollectiveAttrs>();
    if (attrs == nullptr) continue;
    ++met;
    std::string lists, rows;
    for (const auto& list : attrs->groups.expand(256)) {
      std::string members, row;
      for (const std::int64_t d : list) {
        members += (members.empty() ? "" : ",") + std::to_string(d);
        row += (row.empty() ? "" : ", ") + std::to_string(d);
      }
      lists += (lists.empty() ? "{" : ",{") + members + "}";
      rows += (rows.empty() ? "[" : ", [") + row + "]";
    }
    EXPECT_NE(ir::to_string(*i).find("replica_groups={" + lists + "}"), std::string::npos);
    EXPECT_NE(stable.find("replica_groups = dense<[" + rows + "]>"), std::string::npos);
  }
  EXPECT_GT(met, 1u);
}

}  // namespace
}  // namespace tessera::compiler
