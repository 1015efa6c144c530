/** A process that opens a database the moment it reads a byte, so that many can start as one. */
import { openStore } from '../../src/store/open.ts';

process.stdout.write('ready\n');
for await (const _ of Bun.stdin.stream()) break;
const store = await openStore(process.argv[2] ?? '');
await store.directory.version();
await store.database.close();
process.exit(0);
