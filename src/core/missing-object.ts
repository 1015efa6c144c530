import { GatewayError } from './errors.ts';

/** What to do where processes on one database do not see each other's objects. */
export const shareObjects =
  'Processes that share a database must share their objects: set objects (OBJECTS_URL) to S3, ' +
  'or to a folder that all of them reach.';

/** An object of another process that we cannot find; that process may make the next attempt. */
export function missingObject(what: string): GatewayError {
  const message = `${what} is not where this process keeps objects. ${shareObjects}`;
  return new GatewayError('internal_error', message);
}
