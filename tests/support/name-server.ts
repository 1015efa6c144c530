/** A name server on loopback that this process uses instead of the system's until it is stopped. */
import { createSocket } from 'node:dgram';
import { getServers, setServers } from 'node:dns';
import { once } from 'node:events';

const typeA = 1;

export interface NameServer {
  /** The names of all queries, once per query. */
  readonly queries: readonly string[];
  stop(): void;
}

/** Starts a server that knows the IPv4 addresses of these names and never responds to others. */
export async function startNameServer(
  addresses: Readonly<Record<string, string>>,
): Promise<NameServer> {
  const queries: string[] = [];
  const socket = createSocket('udp4', (query, { port, address }) => {
    const { name, end } = readName(query);
    queries.push(name);
    const known = addresses[name];
    if (known === undefined) return;
    const isIpv4 = query.readUInt16BE(end) === typeA;
    socket.send(responseTo(query.subarray(0, end + 4), isIpv4 ? known : null), port, address);
  });
  socket.bind(0, '127.0.0.1');
  await once(socket, 'listening');
  const previous = getServers();
  setServers([`127.0.0.1:${socket.address().port}`]);
  return {
    queries,
    stop() {
      setServers(previous);
      socket.close();
    },
  };
}

/** Reads the name after the header of 12 bytes: labels that each follow their length. */
function readName(query: Buffer): { name: string; end: number } {
  const labels: string[] = [];
  let at = 12;
  for (let length = query[at] ?? 0; length > 0; length = query[at] ?? 0) {
    labels.push(query.toString('latin1', at + 1, at + 1 + length));
    at += 1 + length;
  }
  return { name: labels.join('.').toLowerCase(), end: at + 1 };
}

/** Returns a response with one address, or with none. */
function responseTo(question: Buffer, ip: string | null): Buffer {
  const head = Buffer.from(question);
  // A response without an error, with recursion.
  head.writeUInt16BE(0x8180, 2);
  head.writeUInt16BE(ip === null ? 0 : 1, 6);
  // No further records, such as the options of the query.
  head.writeUInt32BE(0, 8);
  if (ip === null) return head;
  // The name at offset 12, type A, class IN, a lifetime of 0 seconds, and 4 bytes.
  const record = [0xc0, 12, 0, typeA, 0, 1, 0, 0, 0, 0, 0, 4, ...ip.split('.').map(Number)];
  return Buffer.concat([head, Buffer.from(record)]);
}
