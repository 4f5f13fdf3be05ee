// What a reservation says of packets: in words, and in forms.

// Packets between two hosts, in words.
export function packets(selector) {
  const said = [selector.protocol ?? "any protocol"];
  if (selector.source_ports) said.push(`from port ${ports(selector.source_ports)}`);
  if (selector.destination_ports) said.push(`to port ${ports(selector.destination_ports)}`);
  if (selector.dscp !== null) said.push(`DSCP ${selector.dscp}`);
  return said.join(", ");
}

export function ports(both) {
  if (!both) return "";
  return both[0] === both[1] ? `${both[0]}` : both.join("-");
}

// What a form says of packets; what was there before and has no field stays.
export function selector(fields, before = {}) {
  const found = { ...before, protocol: fields.protocol.value || null, dscp: null, destination_ports: null };
  if (fields.dscp.value) found.dscp = Number(fields.dscp.value);
  if (fields.port.value) {
    const [low, high] = fields.port.value.split("-").map(Number);
    found.destination_ports = [low, high ?? low];
  }
  return found;
}
