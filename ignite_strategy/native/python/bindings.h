// What the Python bindings share.
#ifndef IGNITE_STRATEGY_NATIVE_PYTHON_BINDINGS_H_
#define IGNITE_STRATEGY_NATIVE_PYTHON_BINDINGS_H_

#include <nanobind/nanobind.h>

#include <memory>
#include <string>
#include <vector>

#include "native/wire/security.h"
#include "native/wire/wait.h"

namespace ignite_strategy {

namespace igfs {
class Tree;
}

// Each fills its part of the module.
void BindSecurity(nanobind::module_& module);
void BindWire(nanobind::module_& module);
void BindScan(nanobind::module_& module);
void BindPasses(nanobind::module_& module);
void BindBulk(nanobind::module_& module);
void BindIgfs(nanobind::module_& module);

// A wait of at most `limit` for native code that runs without Python's lock: Ctrl-C ends it with
// KeyboardInterrupt when the calling thread is Python's main thread, within two slices.
Wait PythonWait(Millis limit);
// The same without a deadline of its own, for calls that have their limits in Timeouts.
Wait PythonWait();

// Releases Python's lock while native code waits. Unlike nanobind's own guard it never takes the lock back in
// an interpreter that is ending: there a daemon thread would be unwound through code that must not throw, and
// abort.
class WithoutPython {
 public:
  WithoutPython();
  ~WithoutPython();
  WithoutPython(const WithoutPython&) = delete;
  WithoutPython& operator=(const WithoutPython&) = delete;

 private:
  PyThreadState* state_;  // null if the lock was not given back
};

// Contiguous memory of a Python object, which stays where it is meanwhile.
class PythonMemory {
 public:
  PythonMemory(nanobind::handle object, int flags) {
    if (PyObject_GetBuffer(object.ptr(), &view_, flags) != 0) throw nanobind::python_error();
  }
  ~PythonMemory() { PyBuffer_Release(&view_); }
  PythonMemory(const PythonMemory&) = delete;
  PythonMemory& operator=(const PythonMemory&) = delete;

  char* data() const { return static_cast<char*>(view_.buf); }
  std::size_t size() const { return static_cast<std::size_t>(view_.len); }

 private:
  Py_buffer view_{};
};

// Seconds as given in Python, to milliseconds. Throws Error(kInvalidArgument) naming `name` unless 0 <
// seconds < 1e6.
Millis Seconds(double seconds, const char* name);

// What there is in a file system, and what should not be; see native/igfs/check.h. `progress`: a callable
// that gets a step's name, how much of it is done, and how much of how much, or None.
nanobind::dict MeasureTree(igfs::Tree& tree);
nanobind::dict CheckTree(igfs::Tree& tree, bool repair, bool offline, const nanobind::object& progress);

// Settings as Python hands them around, with the variables of these prefixes applied.
std::shared_ptr<const Security> ResolveSecurity(const nanobind::bytes& settings,
                                                const std::vector<std::string>& prefixes);
inline const std::vector<std::string> kNoPrefixes{};

}  // namespace ignite_strategy

#endif  // IGNITE_STRATEGY_NATIVE_PYTHON_BINDINGS_H_
