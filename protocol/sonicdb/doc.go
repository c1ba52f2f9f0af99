// Package sonicdb talks to the Redis databases of a SONiC switch by their
// names.
//
// Where they are and which number each has is in database_config.json
// (sonic-net/sonic-buildimage dockers/docker-database/database_config.json.j2,
// read by sonic-swss-common common/dbconnector.cpp, class SonicDBConfig); where
// that file cannot be read, the numbers are those of sonic-swss-common
// common/schema.h. A switch of several ASICs has such a file for each
// (docker-database-init.sh: /var/run/redis0/sonic-db/database_config.json), and one that lists
// them (database_global.json), which is refused.
//
// It builds on redigo, which gives one connection into the caller's hands: many
// commands to several databases are one round trip, and no pool retries a write
// behind the caller's back.
package sonicdb
