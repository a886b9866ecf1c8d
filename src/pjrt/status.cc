// SPDX-License-Identifier: Apache-2.0
// Errors that stand for exceptions.
#include "src/pjrt/status.h"

#include <tessera/error.h>

#include <new>

namespace tessera::pjrt {
namespace {

PJRT_Error describe(const std::exception_ptr& exception) {
  try {
    std::rethrow_exception(exception);
  } catch (const Failure& e) {
    return {nullptr, e.code, e.message};
  } catch (const InternalError& e) {
    return {nullptr, PJRT_Error_Code_INTERNAL, e.what()};
  } catch (const NotImplementedError& e) {
    return {nullptr, PJRT_Error_Code_UNIMPLEMENTED, e.what()};
  } catch (const ValueError& e) {
    return {nullptr, PJRT_Error_Code_INVALID_ARGUMENT, e.what()};
  } catch (const TypeError& e) {
    return {nullptr, PJRT_Error_Code_INVALID_ARGUMENT, e.what()};
  } catch (const IoError& e) {
    return {nullptr, PJRT_Error_Code_NOT_FOUND, e.what()};
  } catch (const CompileError& e) {
    return {nullptr, PJRT_Error_Code_FAILED_PRECONDITION, e.what()};
  } catch (const std::bad_alloc&) {
    return {nullptr, PJRT_Error_Code_RESOURCE_EXHAUSTED, "out of memory"};
  } catch (const std::exception& e) {
    return {nullptr, PJRT_Error_Code_INTERNAL, e.what()};
  } catch (...) {
    return {nullptr, PJRT_Error_Code_UNKNOWN, "something was thrown that is no exception"};
  }
}

}  // namespace

PJRT_Error* error_of(const std::exception_ptr& exception) noexcept {
  try {
    return new PJRT_Error(describe(exception));
  } catch (...) {
    // Not even memory for a message: one that is always there. Destroying it does nothing.
    static PJRT_Error exhausted{nullptr, PJRT_Error_Code_RESOURCE_EXHAUSTED, {}};
    return &exhausted;
  }
}

}  // namespace tessera::pjrt
