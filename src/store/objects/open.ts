import type { ObjectLinks } from '../../jobs/object-links.ts';
import type { ObjectStorage } from '../../jobs/objects.ts';
import { unusable } from '../unusable.ts';
import { FileObjects } from './files.ts';
import { readS3Place, type S3Credentials, S3Objects } from './s3.ts';

type Identity = S3Credentials & { readonly region: string | null };

/** `file:<folder>` or `s3://bucket/prefix?endpoint=…&public_endpoint=…&region=…`. */
export function openObjects(
  address: string,
  credentials: Identity,
  links: ObjectLinks,
): ObjectStorage {
  if (address.startsWith('file:')) return new FileObjects(address.slice('file:'.length), links);
  if (address.startsWith('s3://')) return openS3Objects(address, credentials);
  throw unusable('The objects address must start with file: or s3://.');
}

/** `patienceMs`: how long the storage may be silent until it counts as away; usually 30 s. */
export function openS3Objects(
  address: string,
  credentials: Identity,
  patienceMs?: number,
): ObjectStorage {
  const place = readS3Place(address);
  const region = place.region ?? credentials.region;
  return new S3Objects({ ...place, region }, credentials, patienceMs);
}
