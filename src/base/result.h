// Result<T>: a value or an Error. Expected failures travel as values; exceptions are kept for a broken environment.
#pragma once

#include <stdexcept>
#include <string>
#include <utility>
#include <variant>

namespace warpsmith {

enum class ErrorKind {
  bad_input,    // the user asked for something that is not accepted; exit code 2
  environment,  // the machine lacks something (GPU, compiler, disk space, permission); exit code 3
  failed,       // the work itself failed (a compile error, a wrong result)
};

// One line that says what is wrong and, for bad input, what is accepted.
struct Error {
  ErrorKind kind = ErrorKind::failed;
  std::string message;
};

inline Error bad_input(std::string message) { return {ErrorKind::bad_input, std::move(message)}; }
inline Error environment_error(std::string message) { return {ErrorKind::environment, std::move(message)}; }
inline Error failure(std::string message) { return {ErrorKind::failed, std::move(message)}; }

// Thrown where a broken environment makes going on pointless; caught once, at the edge of the application.
class EnvironmentError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}      // NOLINT(google-explicit-constructor)
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}  // NOLINT(google-explicit-constructor)

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }

  T& value() & { return std::get<0>(state_); }
  const T& value() const& { return std::get<0>(state_); }
  T&& value() && { return std::get<0>(std::move(state_)); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }
  const Error& error() const { return std::get<1>(state_); }

 private:
  std::variant<T, Error> state_;
};

struct Nothing {};
using Status = Result<Nothing>;
inline Status ok_status() { return Nothing{}; }

}  // namespace warpsmith
