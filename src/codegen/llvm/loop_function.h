// SPDX-License-Identifier: Apache-2.0
// The function of a loop: its reads, its ops and its stores over a range of elements.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "src/codegen/kernels/code/kernel_compiler.h"
#include "src/codegen/llvm/vector_builder.h"

namespace tessera::codegen {

/// The body of a loop, wherever it stands: what its registers hold for some elements. Pointers and
/// what doesn't change with the elements are read once, where the body is opened.
class LoopBody {
 public:
  /// The arguments of a LoopFunction; `first` only if there are stores.
  struct Arguments {
    llvm::Value *inputs, *outputs, *made, *begin, *first;
  };
  LoopBody(llvm::IRBuilder<>& b, const Machine& machine, const LoopSource& source, unsigned width,
           const Arguments& arguments);

  /// Lanes are so many elements apart; 1 at first.
  void set_lane_step(std::int64_t step) { lane_step_ = step; }
  /// What one row has in common; `at`: its first element that is asked for.
  void enter_row(llvm::Value* row);
  /// Where lanes read in a period, from now on.
  void open_periods(const LoopPeriod& period);
  /// What one period has in common: the so many-th of the row of periods, or of all.
  void enter_period(llvm::Value* row, llvm::Value* number);
  /// The next vector begins with the period's so many-th element; -1: it is in no period.
  void set_place(std::int64_t element) { place_ = element; }
  /// The values of the program's outputs for elements `at`, `at` + 1, ...; false if an op has no
  /// code. `column`: of `at`, in its row.
  bool run(unsigned width, llvm::Value* at, llvm::Value* column);
  const Lanes& output(std::size_t k) const { return values_[outputs_[k]]; }
  unsigned output_bytes(std::size_t k) const;
  /// Stores what run() computed.
  void store(unsigned width, llvm::Value* at);
  /// If the condition holds, full vectors are stored past the caches from now on.
  void may_stream(llvm::Value* condition);
  /// Behind the last store.
  void finish_streams();

 private:
  using Register = LoopExpr::Register;

  llvm::Value* pointer(llvm::Value* list, std::size_t k) const;
  llvm::Value* first_element(const Register& r, const Arguments& arguments) const;
  Lanes read(const VectorBuilder& v, std::size_t k, llvm::Value* at, llvm::Value* column);
  Lanes strided(const VectorBuilder& v, std::size_t k, llvm::Value* column);
  Lanes windowed(const VectorBuilder& v, std::size_t k, llvm::Value* column);
  llvm::Value* moved_by_window(std::size_t k, llvm::Value* row);
  llvm::Value* in_window(const LoopExpr::Window& w, llvm::Value* coordinate);
  Lanes indexed(const VectorBuilder& v, std::size_t k, llvm::Value* at);
  Lanes taken(const VectorBuilder& v, const LoopExpr::Op& op) const;
  Lanes number(const VectorBuilder& v, std::size_t k, llvm::Value* index);
  llvm::Value* neighbours(llvm::Value* first, std::int64_t span, unsigned bytes) const;
  Lanes scattered(const VectorBuilder& v, llvm::Value* first,
                  const std::vector<std::int64_t>& from_first, unsigned bytes) const;
  Lanes of_period(const VectorBuilder& v, std::size_t k, std::int64_t place);
  llvm::Value* lanes(const VectorBuilder& v, unsigned bits) const;
  llvm::Value* offset(llvm::Value* base, llvm::Value* elements, unsigned bytes) const;

  llvm::IRBuilder<>& b_;
  const Machine& machine_;
  const LoopExpr& program_;
  const LoopNest& nest_;
  std::vector<llvm::Value*> bases_;  ///< by register: of its first element
  std::vector<llvm::Value*> row_;    ///< by register: of its row, or the row's number
  /// By register with a window of columns: the coordinate of its row's first element.
  std::vector<llvm::Value*> first_in_window_;
  std::vector<Lanes> fixed_;          ///< by register: one element for all, of the full width
  std::vector<Lanes> values_;         ///< by register, for the elements at hand
  std::vector<std::size_t> outputs_;  ///< registers
  unsigned width_;
  std::int64_t lane_step_ = 1;
  std::int64_t pitch_;                   ///< of rows in the output, 0: that of the nest
  llvm::Value* between_rows_ = nullptr;  ///< elements, if there is a pitch
  LoopPeriod period_;
  std::int64_t place_ = -1;
  std::vector<std::vector<Lanes>>
      same_;                        ///< by register: its vectors, if all periods' are the same
  llvm::Value* streams_ = nullptr;  ///< null: never
  bool complete_ = true;
};

/// Emits a counted loop: from `begin` while it is less than `end`, by `step`. The body gets the
/// counter. Leaves the builder behind it.
void emit_for(llvm::IRBuilder<>& b, llvm::Value* begin, llvm::Value* end, llvm::Value* step,
              const std::function<void(llvm::Value*)>& body);

/// Counts from 0 to n in steps of the first width as long as they fit, then of the next; the last
/// is
/// 1. `each` gets the width and the count.
void emit_counts(llvm::IRBuilder<>& b, llvm::Value* n, llvm::ArrayRef<unsigned> widths,
                 const std::function<void(unsigned width, llvm::Value* at)>& each);

/// Runs a body over elements [begin, end): by rows if the nest says so, in steps as those of
/// emit_counts. `each` gets the width, the number of the first element and, by rows, its column.
void emit_range(
    llvm::IRBuilder<>& b, LoopBody* body, const LoopNest& nest, llvm::ArrayRef<unsigned> widths,
    llvm::Value* begin, llvm::Value* end,
    const std::function<void(unsigned width, llvm::Value* at, llvm::Value* column)>& each);

/// A program whose inputs are all given, on those.
std::optional<std::vector<Lanes>> emit_program(const VectorBuilder& v, const LoopExpr& program,
                                               const std::vector<Lanes>& inputs);

/// Lanes of a vector of what the loop computes with.
unsigned vector_width(const LoopExpr& program, const Machine& machine);

/// An empty LoopFunction of that name.
llvm::Function* add_loop_function(llvm::Module* module, const char* name);

/// A LoopFunction of that name; false if an op has no code.
bool emit_loop_function(llvm::Module* module, const Machine& machine, const LoopSource& source,
                        const char* name);

}  // namespace tessera::codegen
