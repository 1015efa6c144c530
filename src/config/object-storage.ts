import { Secret } from '../core/secret.ts';
import type { Environment } from './read-file.ts';

/** Who this Tollgate is to S3. The names are those that every tool for it reads. */
export interface ObjectStorage {
  readonly accessKeyId: Secret | null;
  readonly secretAccessKey: Secret | null;
  readonly sessionToken: Secret | null;
  /** Where the address names none. */
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
