package inventory

var countersTable = &table{"Where a device's counters are read.", []field{
	{key: "source", doc: "The protocol; the platform's own way unless given.", form: oneWord(sourceWords...)},
	{key: "overhead", doc: "Bytes that a frame takes on the wire beyond what its octet counter counts.", form: numberForm(0, maxOverhead)},
	{key: "refresh", doc: "How often the device itself brings its counters up to date, where csig cannot find out.", form: durationForm()},
	{key: "snmp", doc: "With source: snmp.", form: mappingOf(snmpTable)},
	{key: "gnmi", doc: "With source: gnmi.", form: mappingOf(gnmiTable)},
}}

var snmpTable = &table{"How the SNMP agent is asked.", []field{
	{key: "version", doc: "2c, or 3.", form: oneWord(versionWords...), need: true, hint: "2c, or 3"},
	{key: "port", doc: "UDP; 161 unless given.", form: numberForm(1, 1<<16-1)},
	{key: "community", doc: "Of version 2c.", form: secretForm()},
	{key: "user", doc: "Of version 3.", form: text("")},
	{key: "auth", doc: "Of version 3.", form: mappingOf(authTable)},
	{key: "priv", doc: "Of version 3.", form: mappingOf(privTable)},
	{key: "context", doc: "Of version 3.", form: text("")},
	{key: "timeout", doc: "Of one try.", form: durationForm()},
	{key: "retries", doc: "Tries after the first one.", form: numberForm(0, maxRetries)},
	{key: "recheck", doc: "How often names, link status and speed are read anew at least.", form: durationForm()},
	{key: "discards", doc: "Whether packets count those discarded.", form: oneWord(discardsWords...)},
}}

var authTable = &table{"A protocol and its passphrase.", []field{
	{key: "protocol", doc: "Of authentication.", form: oneWord(authWords...), need: true, hint: "want " + oneOf(authWords)},
	{key: "key", doc: "The passphrase.", form: secretForm(), need: true, hint: "e.g. key: {file: /etc/csig/snmp-key}"},
}}

var privTable = &table{"A protocol and its passphrase.", []field{
	{key: "protocol", doc: "Of privacy.", form: oneWord(privWords...), need: true, hint: "want " + oneOf(privWords)},
	{key: "key", doc: "The passphrase.", form: secretForm(), need: true, hint: "e.g. key: {file: /etc/csig/snmp-key}"},
}}

var gnmiTable = &table{"How the gNMI target is asked.", []field{
	{key: "port", doc: "TCP; 9339 unless given.", form: numberForm(1, 1<<16-1)},
	{key: "tls", doc: "The certificates.", form: mappingOf(tlsTable)},
	{key: "plaintext", doc: "Without TLS.", form: boolForm()},
	{key: "username", doc: "Sent as metadata.", form: text("")},
	{key: "password", doc: "Sent as metadata.", form: secretForm()},
	{key: "allow_plaintext_password", doc: "Under plaintext, where nobody can listen in.", form: boolForm()},
	{key: "target", doc: "Name of the target behind a gateway.", form: text("")},
	{key: "mode", doc: "How values come; auto unless given.", form: oneWord(modeWords...)},
	{key: "timeout", doc: "Of connecting, and of one Get.", form: durationForm()},
}}
