// SPDX-License-Identifier: Apache-2.0
// One process writes what all have.
#include "src/frontend/checkpoint/joint_file.h"

#include <algorithm>
#include <exception>
#include <optional>
#include <span>

#include "src/base/files/file_io.h"
#include "src/frontend/checkpoint/collective_io.h"
#include "src/frontend/checkpoint/consistency.h"
#include "src/frontend/checkpoint/gather_stream.h"

namespace tessera::frontend {

const SavedArray& value_of(const std::vector<SavedArray>& arrays, std::size_t i) {
  return arrays[i].same_as ? arrays[*arrays[i].same_as] : arrays[i];
}

bool of_several_processes(const Array& array) {
  const internal::ArrayImpl& impl = *array.impl();
  if (impl.kind != internal::ArrayImpl::Kind::device) return false;
  const std::vector<Device> list = impl.sharding.device_list();
  return std::any_of(list.begin(), list.end(),
                     [&](const Device& d) { return d.process_index != list[0].process_index; });
}

void save_together(const JointFile& given, const std::vector<Array>& leaves,
                   const std::vector<std::string>& paths, Location location) {
  const std::string who = given.api + " to " + given.path;
  CollectiveIo together(given.api, location);
  const auto requests = together.all([&] {
    return "the file " + given.path + '\n' + given.same + described(leaves, paths, location);
  });
  check_same(requests, who);
  const auto arrays = snapshot(leaves, paths, who, location);
  const FileOrder order = given.order(arrays);
  std::optional<ReplacedFile> file;
  const auto values = together.all([&] {
    if (together.index() == 0) file.emplace(given.path).write(order.header);
    return fingerprints(arrays);
  });
  check_values(values, arrays, paths, who);
  std::exception_ptr error;
  {
    const Activity activity{who, "", location};
    const Processes::Turn turn(processes(), activity);
    for (const std::size_t i : order.arrays) {
      gather_stream(value_of(arrays, i), processes(), activity,
                    [&](std::span<const std::byte> bytes) {
                      // What the others still send is taken all the same.
                      if (error) return;
                      try {
                        file->write(bytes);
                      } catch (const Error&) {
                        error = std::current_exception();
                      }
                    });
    }
  }
  (void)together.all([&] {
    if (error) std::rethrow_exception(error);
    if (file) file->commit();
    return std::string();
  });
}

}  // namespace tessera::frontend
