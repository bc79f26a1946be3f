"""embed.py OUTPUT [FILE...]: an assembler file with the bytes of the files, for images.cc."""
import hashlib
import sys

output, *files = sys.argv[1:]
lines = ['    .section .rodata']
table = []
for number, path in enumerate(files):
    with open(path, 'rb') as file:
        # Compilers and their caches do not see a change of an included file.
        digest = hashlib.sha256(file.read()).hexdigest()
    lines += ['    .balign 64', f'image_{number}:', f'    .incbin "{path}" /* {digest} */',
              f'image_{number}_end:']
    table.append(f'    .quad image_{number}, image_{number}_end - image_{number}')
for name, section, content in (('tutti_kernel_images', '.data.rel.ro, "aw"', table),
                               ('tutti_kernel_image_count', '.rodata', [f'    .quad {len(files)}'])):
    lines += [f'    .section {section}', '    .balign 16', f'    .globl {name}', f'    .hidden {name}',
              f'{name}:', *content]
lines.append('    .section .note.GNU-stack, "", %progbits')
with open(output, 'w') as file:
    file.write('\n'.join(lines) + '\n')
