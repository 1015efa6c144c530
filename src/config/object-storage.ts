import { Secret } from '../core/secret.ts';
import type { Environment } from './read-file.ts';

/** Credentials for S3, from the environment variables that all S3 tools read. */
export interface ObjectStorage {
  readonly accessKeyId: Secret | null;
  readonly secretAccessKey: Secret | null;
  readonly sessionToken: Secret | null;
  /** The region to use if the address does not name one. */
  readonly region: string | null;
}

export function readObjectStorage(environment: Environment): ObjectStorage {
  const secret = (text: string | undefined) => (text ? new Secret(text) : null);
  return {
    accessKeyId: secret(environment.AWS_ACCESS_KEY_ID),
    secretAccessKey: secret(environment.AWS_SECRET_ACCESS_KEY),
    sessionToken: secret(environment.AWS_SESSION_TOKEN),
    region: environment.AWS_REGION || null,
  };
}
