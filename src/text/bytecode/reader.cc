// SPDX-License-Identifier: Apache-2.0
// The module, functions, regions and values of bytecode.
#include "src/text/bytecode/reader.h"

#include <algorithm>

#include "src/text/bytecode/bytecode.h"
#include "src/text/bytecode/sections.h"

namespace tessera::text {

using ir::Instruction;

std::unique_ptr<ir::Module> parse_bytecode(std::string_view bytes, const std::string& file,
                                           const Arguments* arguments) {
  const BytecodeFile tables(bytes, file);
  const EntryTexts texts(tables);
  BytecodeLocations locations(tables);
  BytecodePlaces places(tables, texts, locations);
  BytecodeReader reader(tables, texts, locations, places);
  try {
    return reader.run(arguments);
  } catch (const ParseError& e) {
    // Bytes that are damaged, of an operation whose line is known.
    const Location line = places.location_at(texts.all().data());
    if (e.location().known() || !line.known()) throw;
    throw ParseError(e.message() + " (in " + std::string(places.reading()) + ")", line);
  }
}

BytecodeReader::BytecodeReader(const BytecodeFile& file, const EntryTexts& texts,
                               BytecodeLocations& locations, BytecodePlaces& places)
    : Reader(texts.all(), file.source.file, &places),
      file_(file),
      texts_(texts),
      known_locations_(locations),
      places_(places),
      types_read_(file.types.size()),
      locations_noted_(file.attributes.size()) {
  names_.reserve(file.operations.size());
  for (const BytecodeFile::OperationName& o : file.operations) {
    Name& name = names_.emplace_back();
    const BytecodeFile::Dialect& dialect = file.dialects[o.dialect];
    name.full = dialect.name;
    if (!o.name.empty()) name.full += "." + std::string(o.name);
    name.stable = stable_name(name.full);
    name.info = find_operation(name.stable);
    name.properties = find_properties(name.full);
    name.vhlo = dialect.kind == BytecodeDialect::vhlo;
    name.registered = o.registered;
    constexpr std::string_view kWithDefaults[] = {
        "func.func",         "stablehlo.custom_call", "stablehlo.dynamic_conv", "stablehlo.infeed",
        "stablehlo.outfeed", "stablehlo.recv",        "stablehlo.send"};
    name.has_defaults = name.vhlo && std::find(std::begin(kWithDefaults), std::end(kWithDefaults),
                                               name.stable) != std::end(kWithDefaults);
  }
}

class BytecodeReader::RegionScope {
 public:
  explicit RegionScope(BytecodeReader& reader)
      : reader_(reader),
        values_(reader.values_.size()),
        next_(reader.next_value_),
        end_(reader.values_end_),
        left_(reader.operations_left_) {}
  ~RegionScope() {
    reader_.values_.resize(values_);
    reader_.next_value_ = next_;
    reader_.values_end_ = end_;
    reader_.operations_left_ = left_;
  }
  RegionScope(const RegionScope&) = delete;

 private:
  BytecodeReader& reader_;
  std::size_t values_, next_, end_;
  std::uint64_t left_;
};

class BytecodeReader::IsolatedScope {
 public:
  IsolatedScope(BytecodeReader& reader, const Tail& tail) : reader_(reader), scope_(reader) {
    if (!tail.isolated) return;
    isolated_ = true;
    values_.swap(reader.values_);
    if (reader.file_.version < BytecodeFile::kSectionsOfRegions) return;
    const std::string_view part = reader.section_of_regions();
    in_section_ = true;
    outer_ = reader.bytes_;
    reader.bytes_ = reader.file_.reader(part);
  }
  ~IsolatedScope() {
    if (in_section_) reader_.bytes_ = outer_;
    if (isolated_) values_.swap(reader_.values_);
  }
  IsolatedScope(const IsolatedScope&) = delete;

 private:
  BytecodeReader& reader_;
  RegionScope scope_;
  std::vector<Value> values_;
  ByteReader outer_;
  bool isolated_ = false, in_section_ = false;
};

std::string_view BytecodeReader::section_of_regions() {
  const char* at = bytes_.position();
  std::uint8_t id = 0;
  const std::string_view part = bytes_.section(&id);
  if (id != BytecodeSection::kIr) in_.fail_at(at, "expected the operations of regions");
  return part;
}

void BytecodeReader::scan_functions() {
  bytes_ = file_.reader(file_.ir);
  bool has_arguments = false;
  const char* at = bytes_.position();
  if (bytes_.flagged(&has_arguments) != 1 || has_arguments) {
    in_.fail_at(at, "expected one operation, a module");
  }
  Operation& op = next_operation(at);
  const Tail tail = head(op);
  if (names_[tail.name].full != "builtin.module") {
    in_.fail_at(at, "expected builtin.module, found " + names_[tail.name].full);
  }
  for (const Attribute& a : op.attributes) module_attribute(a);
  --depth_;
  if (tail.regions != 1) in_.fail_at(at, "expected a module with one region");
  const IsolatedScope isolated(*this, tail);
  const RegionScope scope(*this);
  std::vector<BlockArgument> none;
  const std::uint64_t items = begin_region(&none, nullptr) ? operations_left_ : 0;
  for (std::uint64_t n = 0; n < items; ++n) module_item();
  if (functions_.empty()) in_.fail_at(at, "expected a module with a function (func.func @main)");
}

void BytecodeReader::module_item() {
  const char* at = bytes_.position();
  Operation& op = next_operation(at);
  const Tail tail = head(op);
  const Name& name = names_[tail.name];
  if (name.stable == "func.func") {
    function(op, tail);
  } else if (name.full == "sdy.mesh") {
    const Attribute *symbol = op.find("sym_name"), *mesh = op.find("mesh");
    if (symbol == nullptr || symbol->value.size() < 2 || mesh == nullptr) {
      in_.fail_at(at, "expected the name of a mesh, and its axes");
    }
    declare_mesh(symbol->value.substr(1, symbol->value.size() - 2), mesh->value, at);
  } else if (name.full == "builtin.module") {
    in_.not_supported_at(at, "modules inside of modules are not supported");
  } else {
    if (is_of_mpmd(name.full)) refuse_mpmd(at, name.full);
    in_.fail_at(at, "operation '" + name.full +
                        "' can't stand in a module here; valid: func.func, vhlo.func_v1, sdy.mesh");
  }
  --depth_;
}

void BytecodeReader::function(const Operation& op, const Tail& tail) {
  Function& f = functions_.emplace_back();
  f.at = op.at;
  function_attributes(&f, op.attributes);
  if (tail.regions != 1) in_.fail_at(op.at, "expected a function with one region");
  ByteReader body = bytes_;
  if (tail.isolated && file_.version >= BytecodeFile::kSectionsOfRegions) {
    body = file_.reader(section_of_regions());
  } else {
    skip_regions(tail, 0);
  }
  declare(&f);
  ByteReader begin = body;
  if (begin.varint() == 0) return;  // declared only
  f.body = body.position();
  bodies_.emplace(f.body, body);
}

void BytecodeReader::start_body(Function& f) {
  bytes_ = bodies_.at(f.body);
  values_.clear();
  std::vector<BlockArgument> arguments;
  std::vector<std::string_view> locations;
  begin_region(&arguments, &locations);
  check_argument_count(f, arguments.size());
  for (std::size_t n = 0; n < arguments.size(); ++n) {
    f.arguments[n].location = locations[n];
    if (f.arguments[n].type == arguments[n].type) continue;
    if (open_ && fits(*arguments[n].type, *f.arguments[n].type)) continue;
    in_.fail_at(arguments[n].at, "argument " + std::to_string(n) + " of @" + std::string(f.name) +
                                     " is " + mlir_type(*arguments[n].type) + " in its body and " +
                                     mlir_type(*f.arguments[n].type) + " in its type");
  }
}

void BytecodeReader::read_apart(Function& f) {
  const RegionScope scope(*this);
  std::vector<Value> values;
  values.swap(values_);
  const ByteReader bytes = bytes_;
  Reader::read_apart(f);
  bytes_ = bytes;
  values.swap(values_);
}

bool BytecodeReader::begin_region(std::vector<BlockArgument>* arguments,
                                  std::vector<std::string_view>* locations) {
  const char* at = bytes_.position();
  next_value_ = values_end_ = values_.size();
  operations_left_ = 0;
  const std::uint64_t blocks = bytes_.varint();
  if (blocks == 0) return false;
  if (blocks > 1) in_.not_supported_at(at, "regions of several blocks are not supported");
  const std::size_t values = bytes_.count("values");
  // Each takes a byte somewhere, whatever the regions around claim to have.
  if (values_.size() + values > file_.source.bytes.size()) {
    in_.fail_at(at, "regions of more values than the file has bytes: the file is damaged");
  }
  values_end_ += values;
  values_.resize(values_end_);
  bool has_arguments = false;
  at = bytes_.position();
  const std::uint64_t count = bytes_.flagged(&has_arguments);
  operations_left_ = bytes_.checked_count(count, at, "operations");
  if (has_arguments) block_arguments(arguments, locations);
  return true;
}

void BytecodeReader::block_arguments(std::vector<BlockArgument>* arguments,
                                     std::vector<std::string_view>* locations) {
  const std::size_t count = bytes_.count("arguments");
  if (count > values_end_ - next_value_) {
    in_.fail_at(bytes_.position(), "a region of " + std::to_string(count) +
                                       " arguments that defines " +
                                       std::to_string(values_end_ - next_value_) + " values");
  }
  for (std::size_t n = 0; n < count; ++n) {
    BlockArgument a;
    a.at = bytes_.position();
    const bool elided = file_.version >= BytecodeFile::kElidedLocations;
    bool has_location = true;
    const std::uint64_t number = elided ? bytes_.flagged(&has_location) : bytes_.varint();
    a.type = type(bytes_.checked_index(number, file_.types.size(), a.at, "type"));
    std::string_view where;
    if (has_location) where = location(location_index());
    values_[next_value_ + n].type = a.type;
    arguments->push_back(a);
    if (locations != nullptr) locations->push_back(where);
  }
  if (file_.version >= BytecodeFile::kUseListOrders && bytes_.byte() != 0) use_list_orders(count);
}

void BytecodeReader::operations(Frame&) {
  bool ended = false;
  const char* at = bytes_.position();
  for (std::uint64_t n = operations_left_; n > 0; --n) {
    at = bytes_.position();
    if (ended) in_.fail_at(at, "an operation stands behind the one that ends the region");
    encoded_operation(&ended);
  }
  if (!ended) {
    in_.fail_at(at, frames_.size() == 1 ? "expected 'return' at the end of the function"
                                        : "expected 'stablehlo.return' at the end of the region");
  }
}

void BytecodeReader::encoded_operation(bool* ended) {
  Operation& op = next_operation(bytes_.position());
  const Tail tail = head(op);
  if (op.info == nullptr) fail_unknown(op);
  if (tail.regions > 0) encoded_regions(op, tail);
  check_operands(op);
  convert_operation(op, ended);
  define_results(op, tail);
  --depth_;
}

void BytecodeReader::encoded_regions(Operation& op, const Tail& tail) {
  if (op.info->regions == Regions::none) {
    in_.fail_at(op.at, std::string(op.name) + " takes no regions");
  }
  const BoundAxes bound(*this, op);
  const IsolatedScope isolated(*this, tail);
  Captures captures;
  const bool any = captures_any(op);
  for (std::size_t n = 0; n < tail.regions; ++n) encoded_region(op, any ? &captures : nullptr);
  if (op.info->regions != Regions::inlined) finish_regions(op, captures);
}

void BytecodeReader::encoded_region(Operation& op, Captures* captures) {
  const RegionScope scope(*this);
  const char* at = bytes_.position();
  std::vector<BlockArgument> arguments;
  begin_region(&arguments, nullptr);
  if (op.info->regions == Regions::inlined) {
    inline_region(op, arguments, at);
  } else {
    op.regions.push_back(region_of(op, op.regions.size(), arguments, at, captures));
  }
}

void BytecodeReader::define(std::string_view, const char* at, Instruction* const* values,
                            std::size_t, Origin origin) {
  if (next_value_ == values_end_) in_.fail_at(at, "there are more values than the region defines");
  Symbol& s = values_[next_value_++].symbol;
  s.level = int(frames_.size()) - 1;
  s.one = values[0];
  s.origin = origin;
}

void BytecodeReader::define_results(const Operation& op, const Tail& tail) {
  check_results(op);
  const Origin origin = origin_of(*op.info);
  for (std::size_t n = 0; n < op.values.size(); ++n) {
    Symbol& s = values_[tail.first_result + n].symbol;
    s.level = int(frames_.size()) - 1;
    s.one = op.values[n];
    s.origin = origin;
  }
}

Symbol* BytecodeReader::symbol_at(const char* at, std::int64_t* number) {
  *number = 0;
  ByteReader in =
      file_.reader(file_.source.bytes.substr(std::size_t(at - file_.source.bytes.data())));
  const std::uint64_t n = in.varint();
  return n < values_.size() ? &values_[n].symbol : nullptr;
}

std::string BytecodeReader::value_name(const char* at) {
  ByteReader in =
      file_.reader(file_.source.bytes.substr(std::size_t(at - file_.source.bytes.data())));
  return "number " + std::to_string(in.varint());
}

}  // namespace tessera::text
