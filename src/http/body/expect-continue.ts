import { fstatSync, readdirSync, readFileSync, writeSync } from 'node:fs';
import { addressBytes } from '../../core/network-address.ts';
import { bytesPerTurn, turns } from '../../core/turns.ts';

// Clients that send `Expect: 100-continue` withhold the body until they get an interim response.
// Bun sends it only if the value is in lower case (oven-sh/bun#30248), but Java sends
// `100-Continue` and waits forever, and Apache's client waits 2 seconds.

type Server = Pick<Bun.Server<undefined>, 'port' | 'requestIP'>;

/** Requests whose clients wait for an interim response. */
const waiting = new WeakMap<Request, Server>();

/** Remembers a request whose client waits for an interim response that Bun doesn't send. */
export function readExpectation(request: Request, server: Server): void {
  const expectation = request.headers.get('expect');
  if (expectation === null || expectation === '100-continue') return;
  if (expectation.toLowerCase() === '100-continue') waiting.set(request, server);
}

export function withholdsBody(request: Request): boolean {
  return waiting.has(request);
}

/**
 * Requests a body that the client withholds. Writes to the connection's file, because Bun has no
 * function for it. Only Linux shows which file that is; elsewhere, the client's timeout decides.
 */
export async function requestBody(request: Request): Promise<void> {
  // The search takes 50 ms with 10,000 connections, so other requests get turns in between.
  await turns.pass(bytesPerTurn);
  const server = waiting.get(request);
  waiting.delete(request);
  try {
    const peer = server?.requestIP(request);
    const file = peer ? fileOf(server?.port ?? 0, peer) : undefined;
    if (file !== undefined) writeSync(file, 'HTTP/1.1 100 Continue\r\n\r\n');
  } catch {
    // The connection was closed, or the system hides its connections.
  }
}

/** Returns the file of a connection. Both ends are compared, so it can't be another client's. */
function fileOf(localPort: number, { address, port }: Bun.SocketAddress): number | undefined {
  const inode = inodeOf(localPort, address, port);
  if (inode === undefined) return undefined;
  return readdirSync('/proc/self/fd')
    .map(Number)
    .find((file) => isSocket(file, inode));
}

const established = '01';
const lineLengthMax = 300;

/** Looks up a connection in the kernel's tables. */
function inodeOf(localPort: number, address: string, port: number): number | undefined {
  for (const table of ['tcp', 'tcp6']) {
    const text = readFileSync(`/proc/self/net/${table}`, 'latin1');
    for (const remote of hexAddresses(address)) {
      const ends = `:${hexPort(localPort)} ${remote}:${hexPort(port)} ${established} `;
      const start = text.indexOf(ends);
      // Five more fields precede the inode.
      if (start !== -1)
        return Number(text.slice(start + ends.length, start + lineLengthMax).split(/ +/)[5]);
    }
  }
  return undefined;
}

/** Returns false for a file that was closed since it was listed. */
function isSocket(file: number, inode: number): boolean {
  try {
    const stats = fstatSync(file);
    return stats.ino === inode && stats.isSocket();
  } catch {
    return false;
  }
}

function hexPort(port: number): string {
  return port.toString(16).toUpperCase().padStart(4, '0');
}

/** Formats an address as the kernel does. On an IPv6 socket, an IPv4 address has 16 bytes, too. */
function hexAddresses(address: string): readonly string[] {
  const bytes = [...(addressBytes(address) ?? [])];
  const mapped = [...new Uint8Array(10), 255, 255, ...bytes.slice(-4)];
  return bytes.length === 4 ? [hexOf(bytes), hexOf(mapped)] : [hexOf(bytes)];
}

/** The kernel prints groups of 4 bytes in the order of the processor, the last byte first. */
function hexOf(bytes: readonly number[]): string {
  const groups = Array.from({ length: bytes.length / 4 }, (_, i) => bytes.slice(4 * i, 4 * i + 4));
  const ordered = groups.flatMap((group) => group.toReversed());
  return Buffer.from(ordered).toString('hex').toUpperCase();
}
