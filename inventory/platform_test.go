package inventory_test

import _ "github.com/csig-agent/csig/vendors/all" // files of these tests have the keys of its platforms
