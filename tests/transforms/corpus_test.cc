// SPDX-License-Identifier: Apache-2.0
// vmap of the corpus' programs: against loops over entries, and against what JAX gives.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <nlohmann/json.hpp>

#include "src/base/files/npy.h"
#include "tests/support/count.h"
#include "tests/transforms/batch_case.h"

namespace tessera::testing {
namespace {

const std::string kCorpus = std::string(TESSERA_SOURCE_DIR) + "/tests/corpus/";
const std::string kTransformed = std::string(TESSERA_SOURCE_DIR) + "/tests/corpus_transforms/";

std::vector<std::string> folders_of(const std::string& path) {
  std::vector<std::string> out;
  for (const auto& entry : std::filesystem::directory_iterator(path)) {
    if (entry.is_directory()) out.push_back(entry.path().filename().string());
  }
  std::sort(out.begin(), out.end());
  return out;
}

nlohmann::json json_of(const std::string& path) {
  std::ifstream in(path);
  return nlohmann::json::parse(in);
}

/// Null for programs whose calls the evaluator alone can't compute.
std::unique_ptr<ir::Module> corpus_program(const std::string& name) {
  std::ifstream in(kCorpus + name + "/plain.hlo");
  std::stringstream text;
  text << in.rdbuf();
  auto module = ir::parse_hlo(text.str(), name);
  return count_of(*module, ir::Opcode::custom_call) > 0 ? nullptr : std::move(module);
}

/// One of a batch: floats scaled, integers turned round.
Literal varied(const Literal& x, std::int64_t entry) {
  Literal out(x.shape());
  const double factor[] = {1, 0.9, 1.1};
  dispatch_dtype(x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const auto from = x.data<T>();
    const auto to = out.mutable_data<T>();
    for (std::size_t i = 0; i < from.size(); ++i) {
      if (is_floating(x.dtype())) {
        to[i] = convert_element<T>(convert_element<double>(from[i]) * factor[entry]);
      } else {
        to[i] = from[(i + std::size_t(entry)) % from.size()];
      }
    }
  });
  return out;
}

/// Arrays of the same shape along a new axis.
Literal stacked(const std::vector<Literal>& entries, std::int64_t axis) {
  Dims dims = entries[0].dims();
  std::int64_t outer = 1;
  for (std::int64_t d = 0; d < axis; ++d) outer *= dims[std::size_t(d)];
  dims.insert(dims.begin() + std::ptrdiff_t(axis), std::int64_t(entries.size()));
  Literal out(Shape(entries[0].dtype(), dims));
  const std::size_t bytes = entries[0].byte_count() / std::size_t(std::max<std::int64_t>(outer, 1));
  std::byte* to = out.mutable_bytes();
  for (std::int64_t o = 0; o < outer; ++o) {
    for (const Literal& entry : entries) {
      std::memcpy(to, entry.bytes() + std::size_t(o) * bytes, bytes);
      to += bytes;
    }
  }
  return out;
}

TEST(VmapOfCorpus, GivesWhatALoopOverEntriesGives) {
  Dice dice(6);
  int count = 0;
  for (const std::string& name : folders_of(kCorpus)) {
    SCOPED_TRACE(name);
    const auto module = corpus_program(name);
    if (!module) continue;
    Dims axes;
    std::vector<Literal> args;
    std::vector<std::vector<Literal>> entries(3);
    for (const ir::Instruction* p : module->entry()->parameters()) {
      const Literal own =
          read_npy(kCorpus + name + "/arg" + std::to_string(axes.size()) + ".npy", p->shape.dtype);
      const bool batched = axes.empty() || dice.chance(0.6);
      axes.push_back(batched ? dice.below(p->shape.rank() + 1) : -1);
      std::vector<Literal> each;
      for (std::int64_t e = 0; e < 3; ++e) {
        each.push_back(batched ? varied(own, e) : own);
        entries[std::size_t(e)].push_back(each.back());
      }
      args.push_back(batched ? stacked(each, axes.back()) : own);
    }
    const auto batched = transforms::vmap(*module, axes, 3);
    ir::verify(*batched);
    const double tolerance = json_of(kCorpus + name + "/plain.json")["tol"];
    const auto got = leaves_of(evaluator::evaluate(*batched, args));
    for (std::int64_t e = 0; e < 3; ++e) {
      const auto want = leaves_of(evaluator::evaluate(*module, entries[std::size_t(e)]));
      ASSERT_EQ(got.size(), want.size());
      for (std::size_t k = 0; k < want.size(); ++k) {
        EXPECT_LE(difference(entry_of(got[k], 0, e), want[k]), tolerance)
            << "result " << k << " of entry " << e << ", axes " << join(axes);
      }
    }
    ++count;
  }
  EXPECT_GE(count, 25);
}

TEST(VmapOfCorpus, GivesWhatJaxGives) {
  int count = 0;
  for (const std::string& name : folders_of(kTransformed)) {
    SCOPED_TRACE(name);
    if (!std::filesystem::exists(kTransformed + name + "/vmap.json")) continue;  // too large
    const auto module = corpus_program(name);
    const nlohmann::json wanted = json_of(kTransformed + name + "/vmap.json");
    if (!module) continue;
    const auto array = [&](const std::string& file, DType dtype) {
      return file.rfind("base/", 0) == 0 ? read_npy(kCorpus + name + file.substr(4), dtype)
                                         : read_npy(kTransformed + name + "/" + file, dtype);
    };
    const std::string step = wanted["steps"][0];
    std::istringstream words(step.substr(step.find(':') + 1));
    Dims axes;
    std::vector<Literal> args;
    std::int64_t size = 0;
    for (std::string axis; std::getline(words, axis, ',');) {
      axes.push_back(axis == "-" ? transforms::kNotBatched : std::stoll(axis));
      args.push_back(
          array(wanted["args"][args.size()], module->entry()->parameter(args.size())->shape.dtype));
      if (axes.back() >= 0) size = args.back().dims()[std::size_t(axes.back())];
    }
    const auto batched = transforms::vmap(*module, axes, size);
    const auto got = leaves_of(evaluator::evaluate(*batched, args));
    ASSERT_EQ(got.size(), wanted["outs"].size());
    for (std::size_t k = 0; k < got.size(); ++k) {
      EXPECT_LE(difference(got[k], array(wanted["outs"][k], got[k].dtype())), double(wanted["tol"]))
          << "result " << k;
    }
    ++count;
  }
  EXPECT_GE(count, 10);
}

}  // namespace
}  // namespace tessera::testing
