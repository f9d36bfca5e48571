// The one exception type of the native code. It never crosses a C or Python border: borders catch it and
// translate.
#ifndef IGNITE_STRATEGY_NATIVE_WIRE_ERROR_H_
#define IGNITE_STRATEGY_NATIVE_WIRE_ERROR_H_

#include <cstdint>
#include <exception>
#include <string>
#include <utility>

namespace ignite_strategy {

// The values are those of TensorFlow's TF_Code, so that the C border passes them through unchanged.
enum class Code : int {
  kOk = 0,
  kCancelled = 1,
  kUnknown = 2,
  kInvalidArgument = 3,
  kDeadlineExceeded = 4,
  kNotFound = 5,
  kAlreadyExists = 6,
  kPermissionDenied = 7,
  kResourceExhausted = 8,
  kFailedPrecondition = 9,
  kAborted = 10,
  kOutOfRange = 11,
  kUnimplemented = 12,
  kInternal = 13,
  kUnavailable = 14,
  kDataLoss = 15,
  kUnauthenticated = 16,
};

class Error : public std::exception {
 public:
  Error(Code code, std::string message, std::int32_t server_status = 0)
      : code_(code), message_(std::move(message)), server_status_(server_status) {}

  Code code() const noexcept { return code_; }
  // The status of an Ignite error response (1000 = cache does not exist, ...); 0 if the error is not the
  // server's.
  std::int32_t server_status() const noexcept { return server_status_; }
  const std::string& message() const noexcept { return message_; }
  const char* what() const noexcept override { return message_.c_str(); }

 private:
  Code code_;
  std::string message_;
  std::int32_t server_status_;
};

}  // namespace ignite_strategy

#endif  // IGNITE_STRATEGY_NATIVE_WIRE_ERROR_H_
