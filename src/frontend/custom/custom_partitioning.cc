// SPDX-License-Identifier: Apache-2.0
// custom_partitioning: adapts the user's callbacks to the partitioner's interface.
#include "src/frontend/custom/custom_partitioning.h"

#include <cxxabi.h>

#include <algorithm>
#include <cstdlib>
#include <memory>

#include "src/base/contains.h"
#include "src/frontend/arrays/array_impl.h"
#include "src/frontend/custom/batched_partitioning.h"
#include "src/frontend/custom/sharding_rule_factors.h"
#include "src/frontend/run/sharding_prefix.h"
#include "src/frontend/run/shardings.h"
#include "src/frontend/trace/trace.h"
#include "src/passes/control/expand_scans.h"
#include "src/passes/expand_derivative_ops.h"
#include "src/sharding/api/lowering.h"
#include "src/sharding/api/sharding_impl.h"
#include "src/sharding/axes/tiling.h"

namespace tessera {

namespace {

/// As in the user's source.
std::string type_name(const std::type_info& type) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> name(
      abi::__cxa_demangle(type.name(), nullptr, nullptr, &status), std::free);
  return status == 0 ? name.get() : type.name();
}

}  // namespace

void PerDeviceFunction::wrong_count(std::size_t takes, std::size_t given, Location location) {
  throw TypeError("the per-device function takes " + std::to_string(takes) +
                      " arguments, and the partitioned function has " + std::to_string(given),
                  location);
}
void PerDeviceFunction::wrong_type(std::size_t position, const std::type_info& takes,
                                   const std::type_info& given, Location location) {
  throw TypeError("argument " + std::to_string(position) +
                      " of the per-device function has another type than that of the partitioned "
                      "function: it takes " +
                      type_name(takes) + ", and the partitioned function " + type_name(given),
                  location);
}

namespace internal {

bool is_tracing() { return frontend::Trace::current() != nullptr; }

std::vector<Array> call_custom_partitioning(
    const std::vector<Array>& leaves, BoundCallbacks callbacks,
    const std::function<std::vector<Array>(const std::vector<Array>&)>& body, Location location) {
  frontend::Trace* trace = frontend::Trace::current();
  if (!trace || trace->manual_scope()) return body(leaves);
  if (!location.known()) location = callbacks.location;
  const std::string name = callbacks.name;
  frontend::Trace inner(name, trace);
  inner.forbid_captures("the function of custom_partitioning '" + name +
                        "': pass it as an argument, so that it can be partitioned");
  std::vector<Array> parameters, results;
  for (const Array& leaf : leaves) {
    parameters.push_back(inner.add_parameter(frontend::abstract_value(leaf)));
  }
  ir::Computation* computation = nullptr;
  {
    const frontend::ActiveTrace active(&inner);
    results = body(parameters);
    computation = inner.finish(results, location);
  }
  std::vector<Shape> shapes;
  for (const Array& r : results) shapes.push_back(frontend::abstract_value(r).shape);
  const Shape shape = Shape::tuple(shapes);
  ir::CustomPartitioningAttrs attrs;
  attrs.partitioner = std::make_shared<frontend::UserPartitioner>(std::move(callbacks));
  return frontend::apply_many(
      ir::Opcode::custom_partitioning, leaves, attrs, location, name, &shape,
      [&](ir::Module*) { return std::vector<ir::Computation*>{computation}; });
}

}  // namespace internal

namespace frontend {

std::shared_ptr<ir::CustomPartitioner> UserPartitioner::on_batch(const Batch& batch) {
  return std::make_shared<BatchedPartitioner>(shared_from_this(), batch);
}

void UserPartitioner::bind(const Mesh& mesh, std::vector<Device> devices) {
  mesh_ = mesh;
  devices_ = std::move(devices);
}

ShapeInfos UserPartitioner::infos(const std::vector<ir::ShapeWithSharding>& values) const {
  ShapeInfos out;
  for (const ir::ShapeWithSharding& v : values) {
    ShapeInfo info{v.shape.dims, v.shape.dtype, Sharding()};
    if (v.sharding) {
      info.sharding =
          sharding_of_result(*v.sharding, devices_, callbacks_.decode_shardings ? mesh_ : Mesh());
      if (NamedSharding::is(info.sharding)) {
        // Specs are padded to full rank, so that callbacks can index them by dim.
        const NamedSharding named(info.sharding);
        std::vector<SpecEntry> entries = named.spec().entries();
        entries.resize(v.shape.dims.size());
        info.sharding = NamedSharding(named.mesh(), PartitionSpec::from_entries(entries));
      }
    }
    out.push_back(std::move(info));
  }
  return out;
}

std::vector<TensorSharding> UserPartitioner::read_back(
    const std::vector<Sharding>& given, const MeshRef& mesh,
    const std::vector<ir::ShapeWithSharding>& values, const std::string& callback,
    const std::string& what) const {
  const std::string who = callback + " of '" + callbacks_.name + "'";
  if (given.size() != values.size() && given.size() != 1) {
    throw ValueError(who + " returned " + std::to_string(given.size()) + " shardings for " +
                         std::to_string(values.size()) + " " + what,
                     callbacks_.location);
  }
  std::vector<TensorSharding> out;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const Sharding& s = given.size() == 1 ? given[0] : given[i];
    const std::string item = who + ": sharding " + std::to_string(i) + " of its " + what;
    if (!s.valid()) {
      throw ValueError(item + " is no sharding (an empty Sharding)", callbacks_.location);
    }
    if (s.impl().devices() != devices_) {
      throw ValueError(
          item + ", " + s.to_string() +
              ", is on other devices than the program, or on the same in another order",
          callbacks_.location);
    }
    check_fits(s, values[i].shape.dims, item, true, callbacks_.location);
    TensorSharding t = to_tensor_sharding(s, values[i].shape.rank());
    if (!t.mesh || same_mesh(t.mesh, mesh)) {
      out.push_back(t.on(mesh));
      continue;
    }
    const std::vector<Tiling> tilings{to_tiling(t)};
    const std::vector<std::int64_t> ranks{values[i].shape.rank()};
    TensorSharding other = from_tilings(tilings, ranks, mesh->num_devices(), mesh)[0];
    other.reduction = t.reduction;
    if (other.mesh && !same_mesh(other.mesh, mesh)) {
      throw NotImplementedError(
          item + ", " + s.to_string() + ", can't be expressed on the mesh of the program",
          callbacks_.location);
    }
    if (other.mesh && !(*other.mesh == *mesh)) {
      throw NotImplementedError(
          item + ", " + s.to_string() +
              ", splits an axis of the program's mesh, which is not supported "
              "in a callback's result",
          callbacks_.location);
    }
    out.push_back(other.on(mesh));
  }
  return out;
}

namespace {
std::vector<Dims> dims_of(const std::vector<ir::ShapeWithSharding>& values) {
  std::vector<Dims> out;
  for (const auto& v : values) out.push_back(v.shape.dims);
  return out;
}
}  // namespace

namespace {
/// Takes axes off dims that a rule wants whole: what is left splits only the factors major to the
/// first one that needs replication.
void keep_whole(const ir::FactorRuleSpec& rule, const std::vector<std::vector<IndexList>>& factors,
                std::vector<ir::ShapeWithSharding>* values) {
  auto needed_whole = [&](int f) { return contains(rule.need_replication, f); };
  for (std::size_t v = 0; v < values->size(); ++v) {
    std::optional<TensorSharding>& s = (*values)[v].sharding;
    if (!s || s->kind != TensorSharding::Kind::axes) continue;
    for (std::size_t d = 0; d < s->dims.size() && d < factors[v].size(); ++d) {
      const IndexList& dim = factors[v][d];
      const auto first = std::find_if(dim.begin(), dim.end(), needed_whole);
      if (first == dim.end()) continue;
      std::int64_t room = 1;
      for (auto f = dim.begin(); f != first; ++f) room *= rule.factor_sizes[std::size_t(*f)];
      IndexList kept;
      for (int axis : s->dims[d].axes) {
        const std::int64_t ways = s->mesh->axes[std::size_t(axis)].size;
        if (room % ways != 0) break;
        room /= ways;
        kept.push_back(axis);
      }
      s->dims[d].axes = std::move(kept);
    }
  }
}
}  // namespace

std::optional<ir::FactorRuleSpec> UserPartitioner::rule(
    const MeshRef&, const std::vector<ir::ShapeWithSharding>& args,
    const std::vector<ir::ShapeWithSharding>& results) {
  if (!callbacks_.rule) return std::nullopt;
  const auto rule = callbacks_.rule(mesh_, infos(args), infos(results));
  if (!rule) return std::nullopt;
  return to_factors(*rule, dims_of(args), dims_of(results));
}

std::vector<TensorSharding> UserPartitioner::infer_sharding_from_operands(
    const MeshRef& mesh, const std::vector<ir::ShapeWithSharding>& args,
    const std::vector<ir::ShapeWithSharding>& results) {
  std::vector<ir::ShapeWithSharding> bare = results;
  for (auto& r : bare) r.sharding.reset();
  return read_back(callbacks_.infer(mesh_, infos(args), infos(bare)).list(), mesh, results,
                   "infer_sharding_from_operands", "results");
}

std::vector<TensorSharding> UserPartitioner::propagate_user_sharding(
    const MeshRef& mesh, const std::vector<ir::ShapeWithSharding>& results) {
  return read_back(callbacks_.propagate(mesh_, infos(results)).list(), mesh, results,
                   "propagate_user_sharding", "results");
}

ir::CustomPartitioner::Partition UserPartitioner::partition(
    ir::Module* module, const MeshRef& mesh, const std::vector<ir::ShapeWithSharding>& given_args,
    const std::vector<ir::ShapeWithSharding>& given_results) {
  std::vector<ir::ShapeWithSharding> args = given_args, results = given_results;
  if (const auto factors = rule(mesh, args, results)) {
    keep_whole(*factors, factors->operands, &args);
    keep_whole(*factors, factors->results, &results);
  }
  const tessera::Partition made = callbacks_.partition(mesh_, infos(args), infos(results));
  const std::string who = "partition of '" + callbacks_.name + "'";
  if (!made.lower_fn) {
    throw ValueError(who + " returned no per-device function", callbacks_.location);
  }
  if (!made.mesh.empty() && !mesh_.empty() &&
      internal::MeshAccess::devices(made.mesh) != devices_) {
    throw ValueError(
        who + " returned a mesh with other devices, or in another order: " + made.mesh.to_string(),
        callbacks_.location);
  }
  Partition out;
  out.args = read_back(made.arg_shardings.list(), mesh, args, "partition", "arguments");
  out.results = read_back(made.result_shardings.list(), mesh, results, "partition", "results");
  out.arg_padding = made.arg_padding;
  if (out.arg_padding.size() == 1) out.arg_padding.resize(args.size(), out.arg_padding[0]);
  if (!out.arg_padding.empty() && out.arg_padding.size() != args.size()) {
    throw ValueError(who + " returned " + std::to_string(out.arg_padding.size()) +
                         " values of arg_padding for " + std::to_string(args.size()) + " arguments",
                     callbacks_.location);
  }

  Trace trace(callbacks_.name, module);
  ManualScope scope;
  scope.mesh = made.mesh.empty() || made.mesh == mesh_ ? mesh : to_logical_mesh(made.mesh);
  for (const MeshAxis& axis : scope.mesh->axes) {
    if (scope.axes.empty() || scope.axes.back() != axis.name) scope.axes.push_back(axis.name);
  }
  trace.bind_manual(std::move(scope));
  trace.embed_captures("the per-device function that partition of '" + callbacks_.name +
                       "' returned: it may use its arguments, values made in it and arrays that "
                       "aren't traced");
  std::vector<Array> parameters;
  for (std::size_t i = 0; i < args.size(); ++i) {
    parameters.push_back(trace.add_parameter(
        {Shape(args[i].shape.dtype, out.args[i].shard_dims(args[i].shape.dims)), false}));
  }
  const ActiveTrace active(&trace);
  const std::vector<Array> outputs = made.lower_fn(callbacks_.rebuild(parameters));
  if (outputs.size() != results.size()) {
    throw TypeError(who + ": the per-device function returns " + std::to_string(outputs.size()) +
                        " arrays, and the function " + std::to_string(results.size()),
                    callbacks_.location);
  }
  for (std::size_t i = 0; i < results.size(); ++i) {
    const Shape want(results[i].shape.dtype, out.results[i].shard_dims(results[i].shape.dims));
    const Shape have = abstract_value(outputs[i]).shape;
    if (!(have == want)) {
      throw ShapeError(who + ": result " + std::to_string(i) + " of the per-device function is " +
                           have.to_string() + ", and its sharding " +
                           out.results[i].to_spec_string() + " of " + results[i].shape.to_string() +
                           " declares " + want.to_string() + " per device",
                       callbacks_.location);
    }
  }
  out.body = trace.finish(outputs, callbacks_.location);
  passes::expand_derivative_ops_in(out.body);
  passes::expand_scans_in(out.body);
  return out;
}

}  // namespace frontend
}  // namespace tessera
