// SPDX-License-Identifier: Apache-2.0
// An element source that reads a concatenation part by part.
#include "src/codegen/kernels/loops/concatenation.h"

#include <algorithm>
#include <cstring>

#include "src/codegen/kernels/kernel_key.h"
#include "src/codegen/kernels/loops/fused_loop.h"
#include "src/codegen/kernels/type_dispatch.h"

namespace tessera::codegen {
namespace {

/// `n` elements, each `step` elements after the one before.
template <class T>
void spread(const std::byte* from, std::int64_t n, std::int64_t step, std::byte* to) {
  for (std::int64_t k = 0; k < n; ++k) {
    std::memcpy(to + k * step * std::int64_t(sizeof(T)), from + k * std::int64_t(sizeof(T)),
                sizeof(T));
  }
}

class Concatenation : public ElementSource {
 public:
  Concatenation(DType type, std::size_t dim, const std::vector<ConcatenationPart>& parts)
      : bytes_(std::int64_t(byte_size(type))) {
    for (const ConcatenationPart& part : parts) {
      firsts_.push_back(row_);
      runs_.push_back(
          element_count(Dims(part.dims.begin() + std::ptrdiff_t(dim), part.dims.end())));
      row_ += runs_.back();
    }
    constexpr std::int64_t kShortestRow = 8;  // shorter ones are no vectors
    for (std::size_t k = 0; k < parts.size(); ++k) {
      const ConcatenationPart& part = parts[k];
      most_inputs_ = std::max(most_inputs_, part.inputs.size());
      parts_.push_back({nullptr, part.inputs});
      if (part.compiled && runs_[k] >= kShortestRow && element_count(part.dims) > runs_[k]) {
        parts_[k].in_place = FusedLoop::with_pitch(part.program, runs_[k], row_);
      }
      if (!parts_[k].in_place) parts_[k].program = make_loop(part.program, part.compiled);
    }
  }

  void generate(const std::byte* const* inputs, std::int64_t begin, std::int64_t n,
                std::byte* out) const override {
    if (n == 0) return;
    const std::int64_t first_row = begin / row_, last_row = (begin + n - 1) / row_;
    const ScratchMemory pointers(most_inputs_ * sizeof(std::byte*));
    auto* const own = reinterpret_cast<const std::byte**>(pointers.data());
    for (std::size_t k = 0; k < parts_.size(); ++k) {
      const std::int64_t run = runs_[k];
      const auto within = [&](std::int64_t at, std::int64_t row) {
        return row * run + std::clamp<std::int64_t>(at - row * row_ - firsts_[k], 0, run);
      };
      const std::int64_t from = within(begin, first_row), to = within(begin + n, last_row);
      if (from >= to) continue;
      for (std::size_t i = 0; i < parts_[k].inputs.size(); ++i)
        own[i] = inputs[parts_[k].inputs[i]];
      if (parts_[k].in_place) {
        std::byte* first = out + (firsts_[k] - begin) * bytes_;
        parts_[k].in_place->run(own, &first, from, to, 0);
        continue;
      }
      // Where an element of the part goes.
      const auto place = [&](std::int64_t p) {
        return out + (p / run * row_ + firsts_[k] + p % run - begin) * bytes_;
      };
      if (from / run == (to - 1) / run) {
        std::byte* direct = place(from);
        parts_[k].program->run(own, &direct, from, to, from);
        continue;
      }
      const ScratchMemory made(std::size_t((to - from) * bytes_));
      std::byte* data = made.data();
      parts_[k].program->run(own, &data, from, to, from);
      if (run == 1 && spread_one(data, to - from, place(from))) continue;
      for (std::int64_t p = from; p < to;) {
        const std::int64_t end = std::min(to, (p / run + 1) * run);
        std::memcpy(place(p), data + (p - from) * bytes_, std::size_t((end - p) * bytes_));
        p = end;
      }
    }
  }

 private:
  bool spread_one(const std::byte* from, std::int64_t n, std::byte* to) const {
    return for_size(kUnsigned, std::size_t(bytes_), [&](auto tag) {
      spread<typename decltype(tag)::type>(from, n, row_, to);
      return true;
    });
  }

  struct Part {
    std::shared_ptr<const FusedLoop> program;  ///< null if `in_place` isn't
    std::vector<int> inputs;
    std::shared_ptr<const FusedLoop> in_place = nullptr;  ///< writes the rows where they belong
  };
  std::vector<Part> parts_;
  std::size_t most_inputs_ = 0;
  std::int64_t bytes_;
  std::int64_t row_ = 0;            ///< elements of all parts along the dim and those after it
  std::vector<std::int64_t> runs_;  ///< those of each part
  std::vector<std::int64_t> firsts_;
};

}  // namespace

SourceDescriptor concatenation(DType type, std::size_t dim, std::vector<ConcatenationPart> parts) {
  KeyWriter key("concatenation");
  key.add_all(type, dim, parts.size());
  for (const ConcatenationPart& p : parts)
    key.add_all(p.program->key(), p.inputs, p.dims, p.compiled);
  const auto shared = std::make_shared<const std::vector<ConcatenationPart>>(std::move(parts));
  SourceDescriptor source{key.take(), [type, dim, shared] {
                            return std::make_shared<const Concatenation>(type, dim, *shared);
                          }};
  const bool one_row = std::all_of(shared->begin(), shared->end(), [&](const auto& p) {
    return element_count(Dims(p.dims.begin(), p.dims.begin() + std::ptrdiff_t(dim))) == 1;
  });
  if (one_row) source.parts = shared;
  return source;
}

}  // namespace tessera::codegen
