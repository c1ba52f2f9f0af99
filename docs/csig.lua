-- Wireshark dissector for CSIG tags (draft-ravi-ippm-csig-00 section 4.1), in
-- both layouts. Use it once with
--
--   wireshark -X lua_script:docs/csig.lua        (tshark takes the same option)
--
-- or copy it to the personal Lua plugins folder (Help, About, Folders). TPIDs
-- and layout are preferences of the protocol "CSIG", for tshark for example
--
--   -o csig.layout:uec -o csig.tpid:0x9900 -o csig.wide_tpid:0x9901

local csig = Proto("csig", "Congestion Signaling Tag")

local signals = { [0] = "min(ABW)", [1] = "min(ABW/C)", [2] = "max(PD)", [3] = "max(nQD)" }

local f = csig.fields
f.t    = ProtoField.uint8("csig.t", "Signal type (T)", base.DEC, signals)
f.r    = ProtoField.uint8("csig.r", "Reserved (R)", base.DEC)
f.s    = ProtoField.uint32("csig.s", "Signal value (S)", base.DEC)
f.lm   = ProtoField.uint16("csig.lm", "Locator metadata (LM)", base.DEC)
f.d    = ProtoField.uint8("csig.d", "Trimmed (D)", base.DEC)
f.wide = ProtoField.bool("csig.wide", "Wide tag")
f.note = ProtoField.string("csig.note", "Note")
f.type = ProtoField.uint16("csig.type", "Type", base.HEX)

csig.prefs.tpid = Pref.string("Compact TPID", "0x9900", "TPID of the 4-byte tag")
csig.prefs.wide_tpid = Pref.string("Wide TPID", "0x9901", "TPID of the 8-byte tag; empty for none")
csig.prefs.layout = Pref.enum("Layout", 1, "How the tag's bits are divided",
  { { 1, "draft-00", 1 }, { 2, "uec", 2 } }, false)

local ethertypes = DissectorTable.get("ethertype")

-- add_compact shows the 16 bits of a compact tag: PCP is T, DEI is R, and the
-- VID is S with LM (and D in uec).
local function add_compact(tree, tvb, uec)
  local b = tvb(0, 2)
  local tci = b:uint()
  local t, s = bit.rshift(tci, 13), bit.band(bit.rshift(tci, 7), 31)
  local lm, none, stale = bit.band(tci, 127), 126, 125
  if uec then lm, none, stale = bit.band(bit.rshift(tci, 1), 63), 62, 61 end
  tree:add(f.t, b, t)
  tree:add(f.r, b, bit.band(bit.rshift(tci, 12), 1))
  tree:add(f.s, b, s)
  tree:add(f.lm, b, lm)
  if uec then tree:add(f.d, b, bit.band(tci, 1)) end
  if lm == none then tree:add(f.note, b, "no switch has written yet"):set_generated() end
  if lm == stale then tree:add(f.note, b, "stale: the switch's agent is gone, or its counters are"):set_generated() end
  return t, s, lm
end

local function add_wide(tree, tvb, uec)
  local lm = tvb(0, 2):uint()
  local word = tvb(2, 4):uint()
  local t, s = bit.rshift(word, 28), bit.band(bit.rshift(word, 8), 0xfffff)
  if uec then
    tree:add(f.d, tvb(0, 2), bit.band(lm, 1))
    lm = bit.rshift(lm, 1)
  end
  tree:add(f.lm, tvb(0, 2), lm)
  tree:add(f.t, tvb(2, 1), t)
  tree:add(f.s, tvb(2, 3), s)
  tree:add(f.r, tvb(5, 1))
  return t, s, lm
end

local function dissect(tvb, pinfo, root, wide)
  local size = wide and 6 or 2
  if tvb:len() < size + 2 then return 0 end
  local uec = csig.prefs.layout == 2
  local tree = root:add(csig, tvb(0, size + 2))
  tree:add(f.wide, tvb(0, size), wide):set_generated()
  local t, s, lm = (wide and add_wide or add_compact)(tree, tvb, uec)
  tree:append_text(string.format(", %s S=%d LM=%d", signals[t] or ("T=" .. t), s, lm))
  tree:add(f.type, tvb(size, 2))
  pinfo.cols.protocol = "CSIG"
  pinfo.cols.info = string.format("%s S=%d LM=%d", signals[t] or ("T=" .. t), s, lm)
  local inner = tvb(size + 2):tvb()
  if not ethertypes:try(tvb(size, 2):uint(), inner, pinfo, root) then
    Dissector.get("data"):call(inner, pinfo, root)
  end
  return tvb:len()
end

-- The wide tag is a protocol of its own only so that a TPID can lead to it.
local wide = Proto("csig_wide", "Congestion Signaling Tag (wide)")
function csig.dissector(tvb, pinfo, root) return dissect(tvb, pinfo, root, false) end
function wide.dissector(tvb, pinfo, root) return dissect(tvb, pinfo, root, true) end

local registered = {}
local function register()
  for tpid, proto in pairs(registered) do ethertypes:remove(tpid, proto) end
  registered = {}
  for _, p in ipairs({ { csig.prefs.tpid, csig }, { csig.prefs.wide_tpid, wide } }) do
    local tpid = tonumber(p[1])
    if tpid then
      ethertypes:add(tpid, p[2])
      registered[tpid] = p[2]
    end
  end
end
csig.prefs_changed = register
register()

-- Probes and answers of a mesh (docs/mesh.md): UDP, by the mesh's port.
local mesh = Proto("csig_mesh", "Congestion Signaling Mesh")
local m = mesh.fields
m.kind     = ProtoField.string("csig_mesh.kind", "Kind")
m.version  = ProtoField.uint8("csig_mesh.version", "Version", base.DEC)
m.signal   = ProtoField.uint8("csig_mesh.signal", "Signal asked for (T)", base.DEC, signals)
m.valid    = ProtoField.bool("csig_mesh.valid", "Valid: the probe had a tag", 8, nil, 0x01)
m.wide     = ProtoField.bool("csig_mesh.wide", "Wide", 8, nil, 0x02)
m.run      = ProtoField.uint64("csig_mesh.run", "Run", base.HEX)
m.seq      = ProtoField.uint64("csig_mesh.seq", "Sequence", base.DEC)
m.sent     = ProtoField.uint64("csig_mesh.sent", "Sent (Unix time in ns)", base.DEC)
m.received = ProtoField.uint64("csig_mesh.received", "Received (Unix time in ns)", base.DEC)
m.mac      = ProtoField.bytes("csig_mesh.mac", "MAC")

mesh.prefs.port = Pref.uint("UDP port", 9917, "Port of the mesh")

function mesh.dissector(tvb, pinfo, root)
  if tvb:len() < 32 then return 0 end
  local magic, answer = tvb(0, 4):string(), false
  if magic == "CSGM" then answer = true elseif magic ~= "CSGP" then return 0 end
  local tree = root:add(mesh, tvb())
  tree:add(m.kind, tvb(0, 4), answer and "answer" or "probe")
  tree:add(m.version, tvb(4, 1))
  pinfo.cols.protocol = "CSIG mesh"
  if tvb(4, 1):uint() ~= 1 then return tvb:len() end
  if not answer then
    tree:add(m.signal, tvb(5, 1))
    tree:add(m.run, tvb(8, 8))
    tree:add(m.seq, tvb(16, 8))
    tree:add(m.sent, tvb(24, 8))
    if tvb:len() == 52 then tree:add(m.mac, tvb(36, 16)) end
    pinfo.cols.info = "probe " .. tostring(tvb(16, 8):uint64())
    return tvb:len()
  end
  local flags = tvb(5, 1)
  tree:add(m.valid, flags)
  tree:add(m.wide, flags)
  tree:add(m.run, tvb(6, 8))
  tree:add(m.seq, tvb(14, 8))
  pinfo.cols.info = "answer to " .. tostring(tvb(14, 8):uint64())
  local is_wide = bit.band(flags:uint(), 2) ~= 0
  local size = is_wide and 6 or 2
  if tvb:len() ~= 46 + size then return tvb:len() end
  if bit.band(flags:uint(), 1) ~= 0 then
    local uec = csig.prefs.layout == 2
    local tag = tree:add(csig, tvb(22, size))
    local t, s, lm = (is_wide and add_wide or add_compact)(tag, tvb(22, size):tvb(), uec)
    pinfo.cols.info:append(string.format(": %s S=%d LM=%d", signals[t] or ("T=" .. t), s, lm))
  end
  tree:add(m.received, tvb(22 + size, 8))
  tree:add(m.mac, tvb(30 + size, 16))
  return tvb:len()
end

local mesh_port = 0
local function register_mesh()
  local udp = DissectorTable.get("udp.port")
  if mesh_port ~= 0 then udp:remove(mesh_port, mesh) end
  mesh_port = mesh.prefs.port
  if mesh_port ~= 0 then udp:add(mesh_port, mesh) end
end
mesh.prefs_changed = register_mesh
register_mesh()

-- The TCP option that reflects tags (docs/hosts.md): a kind for experiments with ExID 0xC516 (RFC 6994), or a
-- domain's own kind. In SYNs there is no tag in it.
local option = Proto("csig_option", "Congestion Signaling Reflection")
local o = option.fields
o.kind   = ProtoField.uint8("csig_option.kind", "Kind", base.DEC)
o.length = ProtoField.uint8("csig_option.length", "Length", base.DEC)
o.exid   = ProtoField.uint16("csig_option.exid", "ExID", base.HEX)

option.prefs.kind = Pref.uint("TCP option", 253, "Kind of the option")

local tcp_options = Field.new("tcp.options")

-- add_option shows one option, from its kind on.
local function add_option(root, tvb, pinfo)
  local kind, size = tvb(0, 1):uint(), tvb:len()
  local head = (kind == 253 or kind == 254) and 4 or 2
  if size ~= head and size ~= head + 2 then return end
  if head == 4 and tvb(2, 2):uint() ~= 0xc516 then return end
  local tree = root:add(option, tvb())
  tree:add(o.kind, tvb(0, 1))
  tree:add(o.length, tvb(1, 1))
  if head == 4 then tree:add(o.exid, tvb(2, 2)) end
  if size == head then
    tree:append_text(", asked for")
    return
  end
  local tag = tree:add(csig, tvb(head, 2))
  local t, s, lm = add_compact(tag, tvb(head, 2):tvb(), csig.prefs.layout == 2)
  tree:append_text(string.format(", %s S=%d LM=%d", signals[t] or ("T=" .. t), s, lm))
  pinfo.cols.info:append(string.format(" reflects %s S=%d LM=%d", signals[t] or ("T=" .. t), s, lm))
end

function option.dissector(_, pinfo, root)
  for _, field in ipairs({ tcp_options() }) do
    local all, at = field.range, 0
    while at < all:len() do
      local kind = all(at, 1):uint()
      if kind == 0 then break end
      local size = 1
      if kind ~= 1 then
        if at + 2 > all:len() then break end
        size = all(at + 1, 1):uint()
        if size < 2 or at + size > all:len() then break end
        if kind == option.prefs.kind then add_option(root, all(at, size):tvb(), pinfo) end
      end
      at = at + size
    end
  end
end
register_postdissector(option)
