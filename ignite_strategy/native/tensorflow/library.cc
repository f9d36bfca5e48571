// What _tensorflow.so offers to ctypes beside TensorFlow's own entry points.
#define IGNITE_STRATEGY_EXPORT extern "C" __attribute__((visibility("default")))

IGNITE_STRATEGY_EXPORT const char* ignite_strategy_version() { return IGNITE_STRATEGY_VERSION; }
