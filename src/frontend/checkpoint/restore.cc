// SPDX-License-Identifier: Apache-2.0
// restore_checkpoint, and what else reads checkpoints.
#include <tessera/checkpoint.h>

#include <algorithm>
#include <exception>
#include <iterator>
#include <sstream>

#include <fmt/format.h>

#include "src/base/at_location.h"
#include "src/base/threads/task_pool.h"
#include "src/frontend/checkpoint/collective_io.h"
#include "src/frontend/checkpoint/manifest.h"
#include "src/frontend/checkpoint/placement_of.h"
#include "src/frontend/checkpoint/step_folder.h"
#include "src/frontend/checkpoint/tree_structure.h"
#include "src/frontend/run/sharding_prefix.h"

namespace tessera {

using frontend::ArrayRecord;
using frontend::FileRecord;
using frontend::Manifest;
using frontend::PieceRecord;

namespace {

/// Far beyond what the arrays of any machine take.
constexpr std::uint64_t kMaxManifest = std::uint64_t(1) << 30;

std::string steps_text(const std::vector<std::int64_t>& steps) {
  // The last ones are those of interest.
  const std::size_t shown = std::min<std::size_t>(steps.size(), 10);
  std::string out = steps.size() > shown ? "..., " : "";
  for (std::size_t i = steps.size() - shown; i < steps.size(); ++i) {
    out += std::to_string(steps[i]) + (i + 1 < steps.size() ? ", " : "");
  }
  return out;
}

/// An open checkpoint: once it is open it may be removed from the directory.
class Checkpoint {
 public:
  Checkpoint(const std::string& directory, std::int64_t step)
      : folder_(frontend::step_path(directory, step)) {
    const std::string path = folder_ + "/" + frontend::kManifestName;
    manifest_ = frontend::parse_manifest(read_file(path, kMaxManifest), path);
    if (manifest_.step != step) {
      throw IoError(path + " is that of step " + std::to_string(manifest_.step));
    }
    for (std::size_t i = 0; i < manifest_.files.size(); ++i) files_.push_back(open(i));
  }

  const Manifest& manifest() const { return manifest_; }
  const std::string& folder() const { return folder_; }

  /// IoError if a file isn't as long as it was, or its header isn't what it was.
  void check_file(std::size_t i) const {
    const FileRecord& record = manifest_.files[i];
    const std::uint64_t bytes = files_[i].size();
    if (bytes != record.bytes) {
      throw IoError(fmt::format(
          "{} is damaged: it has {} bytes, and {} were expected{}", files_[i].path(), bytes,
          record.bytes, bytes < record.bytes ? ": it ends within " + part_at(i, bytes) : ""));
    }
    std::vector<std::byte> header(std::size_t(record.header_bytes));
    header.resize(files_[i].read_at(0, header));
    if (const auto found = frontend::hash_bytes(header); found != record.header_hash) {
      throw IoError(
          fmt::format("{} is damaged within its header: bytes 0 to {} of the file have the "
                      "checksum {:016x}, and {:016x} was expected",
                      files_[i].path(), record.header_bytes, found, record.header_hash));
    }
  }
  void check_files() const {
    for (std::size_t i = 0; i < files_.size(); ++i) check_file(i);
  }

  const ArrayRecord& parts_of(const ArrayRecord& array) const {
    return array.same_as ? manifest_.arrays[*array.same_as] : array;
  }
  frontend::PieceSource source(const ArrayRecord& array, const PieceRecord& piece) const {
    return {&files_[piece.file],   piece.offset,  piece.box,
            name_of(array, piece), &piece.hashes, false};
  }
  Array read(const ArrayRecord& array, const std::optional<Sharding>& sharding,
             Location location) const {
    std::vector<frontend::PieceSource> sources;
    const ArrayRecord& parts = parts_of(array);
    for (const PieceRecord& piece : parts.pieces) sources.push_back(source(parts, piece));
    return frontend::read_array(sources, array.shape, sharding, array.weak,
                                folder_ + ": array '" + array.path + "'", location);
  }

 private:
  File open(std::size_t i) const {
    const std::string path = folder_ + "/" + manifest_.files[i].name;
    try {
      return File::open(path);
    } catch (const IoError& e) {
      throw IoError(e.message() + "; it has " + part_at(i, manifest_.files[i].header_bytes));
    }
  }
  static std::string name_of(const ArrayRecord& array, const PieceRecord& piece) {
    return "array '" + array.path + "' (" + array.shape.to_string() + ", saved as '" + piece.name +
           "')";
  }
  /// What byte `at` of a file belongs to.
  std::string part_at(std::size_t file, std::uint64_t at) const {
    for (const ArrayRecord& a : manifest_.arrays) {
      for (const PieceRecord& p : a.pieces) {
        const std::uint64_t bytes = std::uint64_t(p.box.element_count()) * byte_size(a.shape.dtype);
        if (p.file == file && at >= p.offset && at - p.offset < bytes) return name_of(a, p);
      }
    }
    return "its header";
  }

  std::string folder_;
  Manifest manifest_;
  std::vector<File> files_;
};

[[noreturn]] void no_checkpoint(const std::string& directory, std::optional<std::int64_t> step,
                                const std::vector<std::int64_t>& steps) {
  throw IoError("there is no checkpoint " +
                (step ? "of step " + std::to_string(*step) + " " : std::string()) + "in " +
                directory +
                (steps.empty() ? std::string() : "; there are steps " + steps_text(steps)));
}

/// Calls f with the open checkpoint. Errors of files say which other steps there are.
template <class F>
auto with_checkpoint(const std::string& directory, std::optional<std::int64_t> step, F&& f) {
  for (int attempt = 1;; ++attempt) {
    const std::vector<std::int64_t> steps = frontend::steps_in(directory);
    if (steps.empty() || (step && !std::binary_search(steps.begin(), steps.end(), *step))) {
      no_checkpoint(directory, step, steps);
    }
    const std::int64_t chosen = step.value_or(steps.back());
    try {
      const Checkpoint checkpoint(directory, chosen);
      return f(checkpoint);
    } catch (const IoError& e) {
      // A saver may have removed it since it was found.
      const std::vector<std::int64_t> now = frontend::steps_in(directory);
      const bool gone = !std::binary_search(now.begin(), now.end(), chosen);
      if (gone && !step && attempt < 10) continue;
      if (gone) no_checkpoint(directory, chosen, now);
      std::vector<std::int64_t> others;
      std::copy_if(now.begin(), now.end(), std::back_inserter(others),
                   [&](std::int64_t s) { return s != chosen; });
      if (others.empty()) throw;
      throw IoError(e.message() + " (other checkpoints in " + directory + ": steps " +
                    steps_text(others) + ")");
    }
  }
}

/// The steps as the first process sees them.
std::vector<std::int64_t> agreed_steps(const std::string& directory,
                                       frontend::CollectiveIo* together) {
  const std::string seen = together->first([&] {
    std::string out;
    for (const std::int64_t s : frontend::steps_in(directory)) out += std::to_string(s) + " ";
    return out;
  });
  std::istringstream in(seen);
  return {std::istream_iterator<std::int64_t>(in), {}};
}

/// ValueError where the processes' lines differ, but for those that all begin with kOwn.
constexpr char kOwn = '=', kShared = ' ';
void check_agreement(const std::vector<std::string>& said, const std::string& who) {
  std::vector<std::vector<std::string>> lines;
  for (const std::string& text : said) {
    lines.emplace_back();
    std::istringstream in(text);
    for (std::string line; std::getline(in, line);) lines.back().push_back(line);
  }
  for (std::size_t p = 1; p < said.size(); ++p) {
    const std::size_t n = std::max(lines[0].size(), lines[p].size());
    for (std::size_t i = 0; i < n; ++i) {
      const std::string a = i < lines[0].size() ? lines[0][i] : " nothing more",
                        b = i < lines[p].size() ? lines[p][i] : " nothing more";
      if (a.substr(1) == b.substr(1) || (a[0] == kOwn && b[0] == kOwn)) continue;
      throw ValueError(who +
                       ": all processes must restore the same step, and place arrays alike of "
                       "which each has a part; process 0 requests " +
                       a.substr(1) + ", and process " + std::to_string(p) + " requests " +
                       b.substr(1));
    }
  }
}

/// As with_checkpoint, by all processes, which choose the same step: if one fails, all do.
template <class F>
auto with_agreed_checkpoint(const std::string& api, const std::string& directory,
                            std::optional<std::int64_t> step, Location location,
                            const std::function<std::string()>& request, F&& f) {
  using Result = decltype(f(std::declval<const Checkpoint&>()));
  frontend::CollectiveIo together(api, location);
  const auto requests = together.all([&] {
    return kShared + (step ? "step " + std::to_string(*step) : "the latest step") + request();
  });
  check_agreement(requests, api + " of " + directory);
  if (together.alone()) return with_checkpoint(directory, step, std::forward<F>(f));
  for (int attempt = 1;; ++attempt) {
    const std::vector<std::int64_t> steps = agreed_steps(directory, &together);
    if (steps.empty() || (step && !std::binary_search(steps.begin(), steps.end(), *step))) {
      no_checkpoint(directory, step, steps);
    }
    std::optional<Result> out;
    const bool last = step || attempt == 10;
    const auto ends = together.all([&]() -> std::string {
      try {
        out = with_checkpoint(directory, step.value_or(steps.back()), f);
        return "read";
      } catch (const IoError&) {
        const auto now = frontend::steps_in(directory);
        if (last || std::binary_search(now.begin(), now.end(), steps.back())) throw;
        return "gone";  // a saver has removed it since it was found
      }
    });
    if (std::find(ends.begin(), ends.end(), "gone") == ends.end()) return *std::move(out);
  }
}

/// A line for check_agreement. Arrays on a process's own devices are its own.
std::string placement_request(const std::string& path, const std::optional<Sharding>& sharding) {
  if (process_count() == 1) return "";
  if (!sharding) return std::string("\n") + kOwn + path + " uncommitted";
  std::string out = path + " as " + sharding->to_string() + " on devices";
  for (const Device& d : sharding->device_list()) out += " " + std::to_string(d.id);
  return std::string("\n") + (sharding->is_fully_addressable() ? kOwn : kShared) + out;
}

std::string array_of(const std::string& path) {
  return "restore_checkpoint: array" + (path.empty() ? std::string() : " '" + path + "'");
}

/// All arrays of a checkpoint, several at once.
std::vector<Array> read_arrays(const Checkpoint& checkpoint,
                               const std::vector<std::optional<Sharding>>& shardings,
                               Location location) {
  const std::vector<ArrayRecord>& arrays = checkpoint.manifest().arrays;
  // Arrays that are one stay one, if they are placed alike.
  const auto is_copy = [&](std::size_t i) {
    return arrays[i].same_as && shardings[*arrays[i].same_as] == shardings[i];
  };
  std::vector<Array> out(arrays.size());
  const ProcessOfThread process;
  // Of several errors the first is thrown, whichever thread was faster.
  std::vector<std::exception_ptr> errors(arrays.size());
  parallel_for(std::int64_t(arrays.size()), [&](std::int64_t n) {
    const ProcessOfThread::Use use(process);
    const auto i = std::size_t(n);
    try {
      if (!is_copy(i)) out[i] = checkpoint.read(arrays[i], shardings[i], location);
    } catch (...) {
      errors[i] = std::current_exception();
    }
  });
  for (const std::exception_ptr& error : errors) {
    if (error) std::rethrow_exception(error);
  }
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    if (is_copy(i)) out[i] = out[*arrays[i].same_as];
  }
  return out;
}

std::vector<Array> restored(const Checkpoint& checkpoint, const std::vector<Array>& like,
                            const std::vector<std::optional<Sharding>>& shardings,
                            Location location) {
  const Manifest& manifest = checkpoint.manifest();
  // All that can be wrong with the request comes first: reading takes long.
  for (std::size_t i = 0; i < like.size(); ++i) {
    const ArrayRecord& saved = manifest.arrays[i];
    const std::string who = array_of(saved.path);
    frontend::check_like(saved.shape, like[i], who, location);
    if (shardings[i]) frontend::check_placement(*shardings[i], saved.shape, who, location);
  }
  checkpoint.check_files();
  return read_arrays(checkpoint, shardings, location);
}

}  // namespace

namespace internal {

void restore_tree(const std::string& directory, const std::function<void(TreeVisitor&)>& walk,
                  const RestoreCheckpointOptions& options, Location location) {
  at_location(location, [&] {
    const std::string who = "restore_checkpoint of " + directory;
    const frontend::TreeStructure wanted = frontend::structure_of(walk);
    const std::vector<Array> like = collect_leaves(walk);
    const auto requested = frontend::broadcast_prefix(options.sharding, walk,
                                                      "restore_checkpoint's sharding", location);
    std::vector<std::optional<Sharding>> shardings;
    const auto request = [&] {
      std::string out;
      for (std::size_t i = 0; i < like.size(); ++i) {
        const std::string mine = array_of(wanted.paths[i]);
        shardings.push_back(frontend::resolve_leaf(requested[i], mine, true, false, location));
        if (!shardings[i]) shardings[i] = frontend::placement_of(like[i], mine, location);
        out += placement_request("array " + wanted.paths[i], shardings[i]);
      }
      return out;
    };
    std::vector<std::string> statics;
    const std::vector<Array> arrays = with_agreed_checkpoint(
        "restore_checkpoint", directory, options.step, location, request,
        [&](const Checkpoint& checkpoint) {
          const Manifest& manifest = checkpoint.manifest();
          const auto differences =
              frontend::structure_differences(manifest.tree, wanted.root, checkpoint.folder());
          if (!differences.empty()) {
            std::string lines;
            for (const std::string& line : differences) lines += "\n  " + line;
            throw ValueError(who + ": the tree of step " + std::to_string(manifest.step) +
                             " has another structure:" + lines);
          }
          if (manifest.arrays.size() != like.size()) {
            throw IoError(checkpoint.folder() + ": the tree has " + std::to_string(like.size()) +
                          " arrays, and " + std::to_string(manifest.arrays.size()) + " are listed");
          }
          statics = frontend::static_texts(manifest.tree);
          return restored(checkpoint, like, shardings, location);
        });
    try {
      frontend::assign_tree(walk, arrays, statics);
    } catch (const ValueError& e) {
      throw ValueError(who + ": " + e.message());
    }
  });
}

}  // namespace internal

std::map<std::string, Array> restore_checkpoint_arrays(const std::string& directory,
                                                       const RestoreCheckpointOptions& options,
                                                       Location location) {
  return at_location(location, [&] {
    const std::string who = "restore_checkpoint_arrays of " + directory;
    if (!options.sharding.is_leaf()) {
      throw ValueError(who + ": one sharding is for all arrays, and this is a tree of them: " +
                       options.sharding.to_string());
    }
    const auto sharding = frontend::resolve_leaf(options.sharding, who, true, false, location);
    const auto request = [&] { return placement_request("all arrays", sharding); };
    return with_agreed_checkpoint(
        "restore_checkpoint_arrays", directory, options.step, location, request,
        [&](const Checkpoint& checkpoint) {
          for (const ArrayRecord& a : checkpoint.manifest().arrays) {
            if (sharding) frontend::check_placement(*sharding, a.shape, array_of(a.path), location);
          }
          checkpoint.check_files();
          const std::vector<ArrayRecord>& records = checkpoint.manifest().arrays;
          const std::vector<Array> arrays =
              read_arrays(checkpoint, std::vector(records.size(), sharding), location);
          std::map<std::string, Array> out;
          for (std::size_t i = 0; i < records.size(); ++i) out[records[i].path] = arrays[i];
          return out;
        });
  });
}

std::vector<std::int64_t> all_steps(const std::string& directory, Location location) {
  return at_location(location, [&] {
    frontend::CollectiveIo together("all_steps or latest_step", location);
    return agreed_steps(directory, &together);
  });
}

std::optional<std::int64_t> latest_step(const std::string& directory, Location location) {
  const std::vector<std::int64_t> steps = all_steps(directory, location);
  return steps.empty() ? std::nullopt : std::optional(steps.back());
}

CheckpointInfo checkpoint_info(const std::string& directory, std::optional<std::int64_t> step,
                               Location location) {
  return at_location(location, [&] {
    return with_checkpoint(directory, step, [&](const Checkpoint& checkpoint) {
      const Manifest& manifest = checkpoint.manifest();
      CheckpointInfo out;
      out.step = manifest.step;
      out.metadata = manifest.metadata;
      for (const FileRecord& f : manifest.files) out.bytes += f.bytes;
      for (const ArrayRecord& a : manifest.arrays) {
        CheckpointArray array{a.path, a.shape.dims, a.shape.dtype, a.weak, {}, {}};
        if (a.sharding && a.sharding->mesh) {
          const frontend::MeshRecord& mesh = manifest.meshes[*a.sharding->mesh];
          if (mesh.axis_names.size() != mesh.axis_sizes.size()) {
            throw IoError(checkpoint.folder() + ": a mesh with a size missing");
          }
          for (std::size_t i = 0; i < mesh.axis_names.size(); ++i) {
            array.mesh.emplace_back(mesh.axis_names[i], mesh.axis_sizes[i]);
          }
          array.spec = PartitionSpec::parse(a.sharding->spec, location);
        }
        out.arrays.push_back(std::move(array));
      }
      return out;
    });
  });
}

std::vector<std::string> verify_checkpoint(const std::string& directory,
                                           std::optional<std::int64_t> step, Location location) {
  return at_location(location, [&] {
    const std::vector<std::int64_t> steps = frontend::steps_in(directory);
    if (steps.empty() || (step && !std::binary_search(steps.begin(), steps.end(), *step))) {
      no_checkpoint(directory, step, steps);
    }
    std::vector<std::string> damages;
    const auto collect = [&](auto&& check) {
      try {
        check();
      } catch (const IoError& e) {
        damages.push_back(e.message());
      }
    };
    collect([&] {
      const Checkpoint checkpoint(directory, step.value_or(steps.back()));
      const Manifest& manifest = checkpoint.manifest();
      for (std::size_t i = 0; i < manifest.files.size(); ++i) {
        collect([&] { checkpoint.check_file(i); });
      }
      for (const ArrayRecord& a : manifest.arrays) {
        for (const PieceRecord& p : a.pieces) {
          collect(
              [&] { frontend::check_piece(checkpoint.source(a, p), byte_size(a.shape.dtype)); });
        }
      }
    });
    return damages;
  });
}

}  // namespace tessera
