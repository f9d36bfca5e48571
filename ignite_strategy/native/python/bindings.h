// What the Python bindings share.
#ifndef IGNITE_STRATEGY_NATIVE_PYTHON_BINDINGS_H_
#define IGNITE_STRATEGY_NATIVE_PYTHON_BINDINGS_H_

#include <nanobind/nanobind.h>

#include "native/wire/wait.h"

namespace ignite_strategy {

// Each fills its part of the module.
void BindWire(nanobind::module_& module);
void BindScan(nanobind::module_& module);
void BindIgfs(nanobind::module_& module);

// A wait of at most `limit` for native code that runs without Python's lock: Ctrl-C ends it with
// KeyboardInterrupt when the calling thread is Python's main thread, within two slices.
Wait PythonWait(Millis limit);
// The same without a deadline of its own, for calls that have their limits in Timeouts.
Wait PythonWait();

// Seconds as given in Python, to milliseconds. Throws Error(kInvalidArgument) naming `name` unless 0 <
// seconds < 1e6.
Millis Seconds(double seconds, const char* name);

}  // namespace ignite_strategy

#endif  // IGNITE_STRATEGY_NATIVE_PYTHON_BINDINGS_H_
