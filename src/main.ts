import { setUpRuntime } from './cli/own-command.ts';
import { environment } from './config/environment.ts';

/** Entry point of the `tollgate` command. */
const args = process.argv.slice(2);
setUpRuntime(args, environment);
// Imported late: `setUpRuntime` may replace this process, which would load all this twice.
const { runCommand } = await import('./cli/dispatch.ts');
const { topics } = await import('./cli/topics.ts');
const { commandEnvironment } = await import('./cli/command-environment.ts');
process.exitCode = await runCommand(args, topics, commandEnvironment);
// Open client connections would keep the process alive.
process.exit();
