// The part of OpenSSL that is not TLS. The library is inside our shared objects, its symbols hidden.
#ifndef IGNITE_STRATEGY_NATIVE_WIRE_CRYPTO_H_
#define IGNITE_STRATEGY_NATIVE_WIRE_CRYPTO_H_

#include <cstddef>
#include <string>

namespace ignite_strategy {

// Sets the library up; called before anything else of it is used, more than once does no harm.
void InitOpenssl();
std::string OpensslVersion();
// Unpredictable bytes, also different in each child after fork(). Throws Error(kInternal) if there are none.
void RandomBytes(void* data, std::size_t size);

}  // namespace ignite_strategy

#endif  // IGNITE_STRATEGY_NATIVE_WIRE_CRYPTO_H_
