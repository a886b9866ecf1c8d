# SPDX-License-Identifier: Apache-2.0
# CPack reads this before it makes packages: DEB_COMPRESSION is a faster way for those that are only tried.

if(DEFINED ENV{DEB_COMPRESSION})
  set(CPACK_DEBIAN_COMPRESSION_TYPE "$ENV{DEB_COMPRESSION}")
endif()
