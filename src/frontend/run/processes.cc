// SPDX-License-Identifier: Apache-2.0
// Values that processes gather, share and compare.
#include <tessera/processes.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <set>
#include <string_view>

#include "src/base/processes/processes.h"
#include "src/frontend/arrays/array_impl.h"
#include "src/frontend/run/execute.h"
#include "src/frontend/run/shardings.h"
#include "src/frontend/trace/trace.h"

namespace tessera {

using internal::ArrayImpl;
using internal::impl_of;

namespace {

std::vector<int> everybody() {
  std::vector<int> out(static_cast<std::size_t>(process_count()));
  std::iota(out.begin(), out.end(), 0);
  return out;
}

/// What every process says; what this one says, if it is alone.
std::vector<std::string> gathered(const std::vector<int>& members, const std::string& mine,
                                  const std::string& api, Location location) {
  if (processes() == nullptr) return {mine};
  const Activity activity{api, "", location};
  const Processes::Turn turn(processes(), activity, processes()->group(members));
  return processes()->gather(members, mine, activity);
}

std::string bytes_of(const Literal& x) {
  return std::string(reinterpret_cast<const char*>(x.bytes()), x.byte_count());
}

void refuse_traces(const std::string& api, Location location) {
  if (frontend::Trace::current()) {
    throw TracerError(api + " can't be called while a function is traced", location);
  }
}

bool is_elsewhere(const ArrayImpl& impl) {
  return impl.kind == ArrayImpl::Kind::device && !impl.sharding.is_fully_addressable();
}

/// ShapeError, on all processes, if these have arrays of different types.
void check_same_types(const std::vector<Shape>& shapes, const std::string& api, Location location) {
  std::string mine;
  for (const Shape& s : shapes) mine += (mine.empty() ? "" : ", ") + s.to_string();
  const auto all = gathered(everybody(), mine, api, location);
  for (std::size_t p = 1; p < all.size(); ++p) {
    if (all[p] == all[0]) continue;
    throw ShapeError(api +
                         ": the processes' arrays must be of the same shapes and dtypes; process "
                         "0 has " +
                         all[0] + ", and process " + std::to_string(p) + " has " + all[p],
                     location);
  }
}

Array host_array(Literal value) { return frontend::from_literal(value); }

/// A string that differs where values do, but for a chance that is negligible.
std::string fingerprint(const std::vector<Literal>& values) {
  std::string out;
  for (const Literal& x : values) {
    const std::string_view bytes(reinterpret_cast<const char*>(x.bytes()), x.byte_count());
    out += x.shape().to_string() + ":" + std::to_string(std::hash<std::string_view>()(bytes)) + ";";
  }
  return out;
}

/// "processes 1, 2", which say other than the first; empty if there are none.
std::string others(const std::vector<int>& members, const std::vector<std::string>& all) {
  std::string out;
  int count = 0;
  for (std::size_t i = 1; i < all.size(); ++i) {
    if (all[i] == all[0]) continue;
    out += (out.empty() ? "" : ", ") + std::to_string(members[i]);
    ++count;
  }
  if (out.empty()) return out;
  return (count == 1 ? "process " : "processes ") + out;
}

}  // namespace

namespace frontend {

void check_across_processes(const Array& array, const Sharding& target, const std::string& who,
                            Location location) {
  if (processes() == nullptr || target.is_fully_addressable()) return;
  const ArrayImpl& impl = impl_of(array, location);
  if (is_elsewhere(impl)) return;  // one array, not a value of each process
  const std::vector<Device> list = target.device_list();
  if (list.size() == 1) {
    throw ValueError(who + ": " + list[0].to_string() + " is a device of process " +
                         std::to_string(list[0].process_index) + "; valid: a device of process " +
                         std::to_string(process_index()) +
                         ", or a sharding over devices of several processes",
                     location);
  }
  if (impl.kind == ArrayImpl::Kind::device && impl.committed) {
    throw ValueError(who + " is committed to " + impl.sharding.to_string() +
                         ", devices of process " + std::to_string(process_index()) + ", and " +
                         target.to_string() +
                         " has devices of several processes; valid: "
                         "host_local_array_to_global_array, make_array_from_process_local_data or "
                         "make_array_from_single_device_arrays, which say whose part it is",
                     location);
  }
  std::set<int> owners;
  for (const Device& d : list) owners.insert(int(d.process_index));
  if (owners.size() < 2) return;
  if (owners.count(int(process_index())) == 0) return;
  const std::vector<int> members(owners.begin(), owners.end());
  const auto all =
      gathered(members, fingerprint({to_literal(array, location)}), "device_put", location);
  const std::string differ = others(members, all);
  if (differ.empty()) return;
  throw RuntimeError(who + " must be the same in all processes that own devices of " +
                         target.to_string() + "; it differs between process " +
                         std::to_string(members[0]) + " and " + differ,
                     location);
}

}  // namespace frontend

namespace internal {

std::vector<Array> allgather_leaves(const std::vector<Array>& leaves,
                                    const ProcessAllgatherOptions& options, Location location) {
  const std::string api = "process_allgather";
  refuse_traces(api, location);
  std::vector<Shape> shapes;
  for (const Array& a : leaves) shapes.push_back(impl_of(a, location).shape);
  check_same_types(shapes, api, location);
  std::vector<Array> out;
  for (const Array& a : leaves) {
    const ArrayImpl& impl = impl_of(a, location);
    if (is_elsewhere(impl)) {
      if (!options.tiled) {
        throw ValueError(api + ": " + impl.shape.to_string() +
                             " is over devices of several processes, so there is one value and not "
                             "one per process; valid: {.tiled = true}, which gathers it",
                         location);
      }
      const Sharding whole = frontend::replicated_sharding(impl.sharding.device_list(), Mesh());
      const Array everywhere = make_device_array(
          impl.shape, whole, frontend::buffers_as(a, whole, location), true, impl.weak);
      out.push_back(host_array(frontend::to_literal(everywhere, location)));
      continue;
    }
    const Literal mine = frontend::to_literal(a, location);
    const auto all = gathered(everybody(), bytes_of(mine), api, location);
    Dims dims = mine.dims();
    const auto n = std::int64_t(all.size());
    if (options.tiled && !dims.empty()) {
      dims[0] *= n;
    } else {
      dims.insert(dims.begin(), n);
    }
    Literal joined(Shape(mine.dtype(), dims));
    for (std::size_t p = 0; p < all.size(); ++p) {
      if (all[p].empty()) continue;
      std::memcpy(joined.mutable_bytes() + p * all[p].size(), all[p].data(), all[p].size());
    }
    out.push_back(host_array(std::move(joined)));
  }
  return out;
}

std::vector<Array> broadcast_leaves(const std::vector<Array>& leaves, std::optional<bool> is_source,
                                    Location location) {
  const std::string api = "broadcast_one_to_all";
  refuse_traces(api, location);
  const bool source = is_source.value_or(process_index() == 0);
  const auto claims = gathered(everybody(), source ? "1" : "0", api, location);
  const auto first = std::find(claims.begin(), claims.end(), "1");
  if (std::count(claims.begin(), claims.end(), "1") != 1) {
    throw ValueError(api + ": one process must be the source, and " +
                         std::to_string(std::count(claims.begin(), claims.end(), "1")) + " of " +
                         std::to_string(claims.size()) + " say that they are",
                     location);
  }
  std::vector<Shape> shapes;
  for (const Array& a : leaves) shapes.push_back(impl_of(a, location).shape);
  check_same_types(shapes, api, location);
  std::vector<Array> out;
  for (const Array& a : leaves) {
    const Shape& shape = impl_of(a, location).shape;
    const auto all =
        gathered(everybody(), source ? bytes_of(frontend::to_literal(a, location)) : std::string(),
                 api, location);
    Literal value(shape);
    const std::string& given = all[std::size_t(first - claims.begin())];
    if (!given.empty()) std::memcpy(value.mutable_bytes(), given.data(), given.size());
    out.push_back(host_array(std::move(value)));
  }
  return out;
}

void assert_equal_leaves(const std::vector<Array>& leaves, const std::string& message,
                         Location location) {
  refuse_traces("assert_equal", location);
  std::vector<Literal> values;
  for (const Array& a : leaves) values.push_back(frontend::to_literal(a, location));
  const auto all = gathered(everybody(), fingerprint(values), "assert_equal", location);
  const std::string differ = others(everybody(), all);
  if (differ.empty()) return;
  throw RuntimeError((message.empty() ? std::string("assert_equal") : message) +
                         ": the values of " + differ + " differ from those of process 0",
                     location);
}

}  // namespace internal

void sync_processes(const std::string& name, Location location) {
  refuse_traces("sync_processes", location);
  const auto all = gathered(everybody(), name, "sync_processes", location);
  if (std::all_of(all.begin(), all.end(), [&](const std::string& n) { return n == name; })) return;
  std::string text;
  for (std::size_t p = 0; p < all.size(); ++p) {
    text += (p == 0 ? "process " : ", process ") + std::to_string(p) + " at '" + all[p] + "'";
  }
  throw RuntimeError("sync_processes: the processes are at different places: " + text, location);
}

}  // namespace tessera
