// SPDX-License-Identifier: Apache-2.0
// Reads parts of arrays block by block, and puts the elements where they are wanted.
#include <algorithm>
#include <cstring>
#include <exception>
#include <map>
#include <memory>

#include <fmt/format.h>

#include "src/base/check.h"
#include "src/base/processes/processes.h"
#include "src/base/threads/task_pool.h"
#include "src/compiler/engine.h"
#include "src/frontend/checkpoint/tensor_files.h"
#include "src/frontend/trace/trace.h"
#include "src/sharding/api/shard_layout.h"

namespace tessera::frontend {

namespace {

/// Without checksums, what is read at once.
constexpr std::uint64_t kReadBytes = std::uint64_t(256) << 10;

/// Goes through the runs of memory that a dense part of an array shares with another one, in the
/// order of the first: `from` and `to` are the bytes at which the current run begins in each.
class SharedRuns {
 public:
  SharedRuns(const Box& source, const Box& target, std::size_t element)
      : rank_(source.start.size()),
        element_(element),
        source_(source),
        target_(target),
        start_(rank_),
        size_(rank_),
        at_(rank_, 0),
        from_strides_(row_major_strides(source.size)),
        to_strides_(row_major_strides(target.size)) {
    for (std::size_t d = 0; d < rank_; ++d) {
      start_[d] = std::max(source.start[d], target.start[d]);
      size_[d] =
          std::min(source.start[d] + source.size[d], target.start[d] + target.size[d]) - start_[d];
      if (size_[d] <= 0) return;
    }
    // Trailing dims that both contain entirely are one run.
    inner_ = rank_;
    std::int64_t run = 1;
    while (inner_ > 0) {
      const std::size_t d = --inner_;
      run *= size_[d];
      if (size_[d] != source.size[d] || size_[d] != target.size[d]) break;
    }
    run_bytes_ = std::uint64_t(run) * element_;
    done_ = false;
    place();
  }

  bool done() const { return done_; }
  std::uint64_t from() const { return from_; }
  std::uint64_t to() const { return to_; }
  std::uint64_t bytes() const { return left_; }
  /// Skips `n` bytes of the run.
  void advance(std::uint64_t n) {
    from_ += n;
    to_ += n;
    left_ -= n;
    if (left_ > 0) return;
    std::size_t d = inner_;
    while (d > 0 && ++at_[d - 1] == size_[d - 1]) at_[--d] = 0;
    done_ = d == 0;
    if (!done_) place();
  }

 private:
  void place() {
    std::int64_t from = 0, to = 0;
    for (std::size_t d = 0; d < rank_; ++d) {
      from += (start_[d] + at_[d] - source_.start[d]) * from_strides_[d];
      to += (start_[d] + at_[d] - target_.start[d]) * to_strides_[d];
    }
    from_ = std::uint64_t(from) * element_;
    to_ = std::uint64_t(to) * element_;
    left_ = run_bytes_;
  }

  std::size_t rank_, element_;
  const Box& source_;
  const Box& target_;
  Dims start_, size_, at_, from_strides_, to_strides_;
  std::size_t inner_ = 0;
  std::uint64_t run_bytes_ = 0, from_ = 0, to_ = 0, left_ = 0;
  bool done_ = true;
};

/// Reads all of `to`, which are bytes [begin, ...) of the source's data, and checks them.
void read_block(const PieceSource& source, std::uint64_t begin, std::span<std::byte> to) {
  const std::uint64_t at = source.offset + begin;
  if (const std::size_t got = source.file->read_at(at, to); got != to.size()) {
    throw IoError(
        fmt::format("{} is cut short: it ends at byte {}, within {}, and {} bytes from {} "
                    "on were expected",
                    source.file->path(), at + got, source.who, to.size(), at));
  }
  if (source.hashes == nullptr) return;
  const std::uint64_t expected = (*source.hashes)[std::size_t(begin / kHashedBytes)],
                      found = hash_bytes(to);
  if (found != expected) {
    throw IoError(fmt::format(
        "{} is damaged within {}: bytes {} to {} of the file have the checksum {:016x}, "
        "and {:016x} was expected",
        source.file->path(), source.who, at, at + to.size(), found, expected));
  }
}

void read_source(const PieceSource& source, std::size_t element,
                 const std::vector<PieceTarget>& targets, std::vector<std::uint64_t>* filled) {
  const std::uint64_t all = std::uint64_t(source.box.element_count()) * element;
  const std::uint64_t block = source.hashes ? kHashedBytes : kReadBytes;
  if (source.hashes) {
    TESSERA_CHECK(source.hashes->size() == (all + block - 1) / block, "a checksum per block");
  }
  std::vector<SharedRuns> runs;
  std::vector<std::size_t> target_of;
  for (std::size_t t = 0; t < targets.size(); ++t) {
    SharedRuns r(source.box, targets[t].box, element);
    if (r.done()) continue;
    runs.push_back(std::move(r));
    target_of.push_back(t);
  }
  std::vector<std::byte> buffer;
  while (true) {
    std::uint64_t first = all;
    for (const SharedRuns& r : runs) {
      if (!r.done()) first = std::min(first, r.from());
    }
    if (first == all) return;
    const std::uint64_t begin = first / block * block, end = std::min(begin + block, all);
    if (runs.size() == 1 && runs[0].from() == begin && runs[0].bytes() >= end - begin) {
      // No need to go through a buffer.
      std::byte* host = targets[target_of[0]].host + runs[0].to();
      read_block(source, begin, {host, std::size_t(end - begin)});
      (*filled)[target_of[0]] += end - begin;
      runs[0].advance(end - begin);
      continue;
    }
    buffer.resize(std::size_t(end - begin));
    read_block(source, begin, buffer);
    for (std::size_t k = 0; k < runs.size(); ++k) {
      SharedRuns& r = runs[k];
      while (!r.done() && r.from() < end) {
        const std::uint64_t n = std::min(r.bytes(), end - r.from());
        std::memcpy(targets[target_of[k]].host + r.to(), buffer.data() + (r.from() - begin),
                    std::size_t(n));
        (*filled)[target_of[k]] += n;
        r.advance(n);
      }
    }
  }
}

/// Elements of 4 bits, two a byte: read entirely, for they are few bytes.
void read_packed(const PieceSource& source, const std::vector<PieceTarget>& targets,
                 std::vector<std::uint64_t>* filled) {
  const std::size_t count = std::size_t(source.box.element_count());
  std::vector<std::byte> packed(count / 2), elements(count);
  read_block(source, 0, packed);
  for (std::size_t i = 0; i < count; ++i) {
    elements[i] = i % 2 ? packed[i / 2] >> 4 : packed[i / 2] & std::byte{15};
  }
  for (std::size_t t = 0; t < targets.size(); ++t) {
    copy_common(elements.data(), source.box, targets[t].host, targets[t].box, 1);
    for (SharedRuns r(source.box, targets[t].box, 1); !r.done(); r.advance(r.bytes())) {
      (*filled)[t] += r.bytes();
    }
  }
}

}  // namespace

void read_pieces(const std::vector<PieceSource>& sources, std::size_t element_bytes,
                 const std::vector<PieceTarget>& targets, const std::string& who) {
  std::vector<std::vector<std::uint64_t>> by_source(sources.size());
  // Of several errors the first is thrown, whichever thread was faster.
  std::vector<std::exception_ptr> errors(sources.size());
  parallel_for(std::int64_t(sources.size()), [&](std::int64_t i) {
    const PieceSource& source = sources[std::size_t(i)];
    std::vector<std::uint64_t>& filled = by_source[std::size_t(i)];
    filled.assign(targets.size(), 0);
    try {
      if (source.packed) {
        read_packed(source, targets, &filled);
      } else {
        read_source(source, element_bytes, targets, &filled);
      }
    } catch (...) {
      errors[std::size_t(i)] = std::current_exception();
    }
  });
  for (const std::exception_ptr& error : errors) {
    if (error) std::rethrow_exception(error);
  }
  std::vector<std::uint64_t> filled(targets.size(), 0);
  for (const std::vector<std::uint64_t>& f : by_source) {
    for (std::size_t t = 0; t < f.size(); ++t) filled[t] += f[t];
  }
  for (std::size_t t = 0; t < targets.size(); ++t) {
    const std::uint64_t need = std::uint64_t(targets[t].box.element_count()) * element_bytes;
    if (filled[t] != need) {
      throw IoError(
          fmt::format("{}: the parts that were saved have {} of the {} bytes of the part "
                      "that begins at {}",
                      who, filled[t], need, to_string(targets[t].box.start)));
    }
  }
}

void check_piece(const PieceSource& source, std::size_t element_bytes) {
  const std::uint64_t all = std::uint64_t(source.box.element_count()) * element_bytes;
  std::vector<std::byte> block;
  for (std::uint64_t at = 0; at < all; at += kHashedBytes) {
    block.resize(std::size_t(std::min(kHashedBytes, all - at)));
    read_block(source, at, block);
  }
}

Array read_array(const std::vector<PieceSource>& sources, const Shape& shape,
                 const std::optional<Sharding>& sharding, bool weak, const std::string& who,
                 Location location) {
  const std::size_t element = byte_size(shape.dtype);
  struct Part {
    std::vector<std::size_t> places;
    std::vector<Device> devices;
    std::unique_ptr<std::byte[]> host;
  };
  std::map<Box, Part> parts;
  if (!sharding) {
    parts[Box::entire(shape.dims)];
  } else {
    const auto layout = shard_layout(*sharding, shape.dims, location);
    for (std::size_t i = 0; i < layout->devices.size(); ++i) {
      if (!is_local(layout->devices[i])) continue;
      Part& part = parts[Box{layout->offsets[i], layout->shard_shape}];
      part.places.push_back(i);
      part.devices.push_back(layout->devices[i]);
    }
  }
  std::vector<PieceTarget> targets;
  for (auto& [box, part] : parts) {
    part.host =
        std::make_unique_for_overwrite<std::byte[]>(std::size_t(box.element_count()) * element);
    targets.push_back({box, part.host.get()});
  }
  read_pieces(sources, element, targets, who);
  const auto count = [](const Box& box) { return std::size_t(box.element_count()); };
  for (auto& [box, part] : parts) canonicalise(shape.dtype, part.host.get(), count(box));
  if (!sharding) {
    const std::size_t bytes = std::size_t(shape.byte_count());
    return from_literal(Literal(shape, std::span(parts.begin()->second.host.get(), bytes)), weak);
  }
  std::vector<DeviceBuffer> buffers(sharding->device_list(location).size());
  std::vector<std::pair<const Box, Part>*> list;
  for (auto& entry : parts) list.push_back(&entry);
  const MemoryKind kind = internal::memory_of(*sharding);
  const ProcessOfThread process;
  parallel_for(std::int64_t(list.size()), [&](std::int64_t i) {
    const ProcessOfThread::Use use(process);
    auto& [box, part] = *list[std::size_t(i)];
    auto made = compiler::engine_of(part.devices)
                    .copy_in(part.host.get(), {shape.dtype, box}, box, part.devices, kind);
    for (std::size_t k = 0; k < made.size(); ++k) buffers[part.places[k]] = std::move(made[k]);
    part.host.reset();
  });
  return internal::make_device_array(shape, *sharding, std::move(buffers), true, weak);
}

}  // namespace tessera::frontend
