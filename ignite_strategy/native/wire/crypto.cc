#include "native/wire/crypto.h"

#include <openssl/crypto.h>
#include <openssl/rand.h>

#include <climits>

#include "native/wire/error.h"

namespace ignite_strategy {

std::string OpensslVersion() { return OpenSSL_version(OPENSSL_VERSION); }

void RandomBytes(void* data, std::size_t size) {
  if (size > INT_MAX || RAND_bytes(static_cast<unsigned char*>(data), static_cast<int>(size)) != 1) {
    throw Error(Code::kInternal, "no random bytes from the operating system");
  }
}

}  // namespace ignite_strategy
