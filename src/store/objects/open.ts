import { GatewayError } from '../../core/errors.ts';
import type { ObjectLinks } from '../../jobs/object-links.ts';
import type { ObjectStore } from '../../jobs/objects.ts';
import { FileObjects } from './files.ts';
import { readS3Place, type S3Credentials, S3Objects } from './s3.ts';

/** `file:<folder>` or `s3://bucket/prefix?endpoint=…&public_endpoint=…&region=…`. */
export function openObjects(
  address: string,
  credentials: S3Credentials & { readonly region: string | null },
  links: ObjectLinks,
): ObjectStore {
  if (address.startsWith('file:')) return new FileObjects(address.slice('file:'.length), links);
  if (address.startsWith('s3://')) {
    const place = readS3Place(address);
    return new S3Objects({ ...place, region: place.region ?? credentials.region }, credentials);
  }
  throw new GatewayError(
    'service_unavailable',
    'The objects address must start with file: or s3://.',
  );
}
