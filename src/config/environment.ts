import type { Environment } from './read-file.ts';

/** The process's environment. Nothing else reads it. */
export const environment: Environment = process.env;
